package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/mattn/go-sqlite3"
)

// version is set when a release is built, by -ldflags "-X main.version=…".
var version string

// VersionCmd is "windsock version".
type VersionCmd struct{}

// Run prints the versions of what windsock consists of.
func (*VersionCmd) Run(io stdio) error {
	sqlite, _, _ := sqlite3.Version()
	_, err := fmt.Fprintf(io.out, "windsock %s (%s, SQLite %s, %s/%s)\n",
		buildVersion(), runtime.Version(), sqlite, runtime.GOOS, runtime.GOARCH)
	return err
}

// buildVersion returns the version of this binary; if it was given none, one that
// names the commit it was built from.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
