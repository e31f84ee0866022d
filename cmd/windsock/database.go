package main

import (
	"context"
	"fmt"

	"windsock/store"
)

// MigrateCmd is "windsock migrate".
type MigrateCmd struct {
	DB string `name:"db" help:"SQLite file, or URL of a PostgreSQL (default ${db})." default:"${db}" placeholder:"FILE|URL" env:"WINDSOCK_DB"`
}

// Run brings the schema up to date and says what that took.
func (c *MigrateCmd) Run(ctx context.Context, io stdio) error {
	applied, err := store.Migrate(ctx, c.DB)
	if err != nil {
		return err
	}
	for _, name := range applied {
		fmt.Fprintln(io.out, "applied", name)
	}
	fmt.Fprintln(io.out, store.Redacted(c.DB), "is up to date")
	return nil
}

// CopyCmd is "windsock copy".
type CopyCmd struct {
	From string `help:"SQLite file, or URL of a PostgreSQL, to copy from. No windsock should run on it." required:"" placeholder:"FILE|URL"`
	To   string `help:"SQLite file, or URL of a PostgreSQL, to copy to. It has to be empty." required:"" placeholder:"FILE|URL"`
}

// Run copies a database and says what of each table arrived.
func (c *CopyCmd) Run(ctx context.Context, io stdio) error {
	err := store.Copy(ctx, c.From, c.To, func(t store.Copied) {
		fmt.Fprintf(io.out, "%-16s %9d rows  checksum %016x\n", t.Table, t.Rows, t.Sum)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "copied %s to %s\n", store.Redacted(c.From), store.Redacted(c.To))
	return nil
}
