package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// A dialect is a kind of database, and the folder of its migrations.
type dialect string

const (
	onSQLite   dialect = "sqlite"
	onPostgres dialect = "postgres"
)

var gooseDialects = map[dialect]goose.Dialect{onSQLite: goose.DialectSQLite3, onPostgres: goose.DialectPostgres}

// Migrate brings the schema of a database up to date, and returns the names of the
// migrations that it lacked.
func Migrate(ctx context.Context, db string) (applied []string, err error) {
	if applied, err = migrateNamed(ctx, db); err != nil {
		return nil, fmt.Errorf("database %s: %w", Redacted(db), err)
	}
	return applied, nil
}

func migrateNamed(ctx context.Context, db string) ([]string, error) {
	if isURL(db) {
		c, err := pgConfig(db)
		if err != nil {
			return nil, err
		}
		return pgMigrate(ctx, c)
	}
	n, err := meet(db)
	if err != nil {
		return nil, err
	}
	defer n.leave()
	file, err := connect(writerDSN(db), 1)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return migrateFile(ctx, file, n)
}

// migrateFile migrates while no other process does.
func migrateFile(ctx context.Context, db *sqlx.DB, n neighbours) (applied []string, err error) {
	err = inTurn(func() error {
		if err := n.begin(); err != nil {
			return err
		}
		defer n.end()
		applied, err = migrate(ctx, db, onSQLite)
		return err
	})
	return applied, err
}

// migrate applies the migrations that are missing, each in its own transaction.
func migrate(ctx context.Context, db *sqlx.DB, d dialect) (applied []string, err error) {
	p, err := provider(db, d)
	if err != nil {
		return nil, err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return nil, err
	}
	if have > want {
		return nil, tooNew(have, want)
	}
	done, err := p.Up(ctx)
	for _, m := range done {
		applied = append(applied, strings.TrimSuffix(filepath.Base(m.Source.Path), ".sql"))
	}
	return applied, err
}

func provider(db *sqlx.DB, d dialect) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations/"+string(d))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(gooseDialects[d], db.DB, files)
}

func tooNew(have, want int64) error {
	return fmt.Errorf("its schema is version %d, this windsock knows up to %d: use the newer windsock that wrote it", have, want)
}
