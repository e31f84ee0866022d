package main

import (
	"context"
	"fmt"

	"windsock/store"
)

// BackupCmd is "windsock backup".
type BackupCmd struct {
	DB string `name:"db" help:"SQLite file to copy; it may be in use (default ${db})." default:"${db}" placeholder:"FILE" env:"WINDSOCK_DB"`
	To string `arg:"" help:"File to make, and one with .key behind its name."`
}

// Run copies the database and says what the copy holds.
func (c *BackupCmd) Run(ctx context.Context, io stdio) error {
	b, err := store.Backup(ctx, c.DB, c.To)
	if err == nil {
		fmt.Fprintf(io.out, "%s has all up to event %d, in %d bytes\n", c.To, b.Head, b.Bytes)
	}
	return err
}

// RestoreCmd is "windsock restore".
type RestoreCmd struct {
	DB   string `name:"db" help:"SQLite file to make; there must be none yet (default ${db})." default:"${db}" placeholder:"FILE" env:"WINDSOCK_DB"`
	From string `arg:"" help:"File that backup made."`
}

// Run makes a database of a backup and says what it holds.
func (c *RestoreCmd) Run(ctx context.Context, io stdio) error {
	b, err := store.Restore(ctx, c.From, c.DB)
	if err == nil {
		fmt.Fprintf(io.out, "%s has all up to event %d, in %d bytes\n", c.DB, b.Head, b.Bytes)
	}
	return err
}
