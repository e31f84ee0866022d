package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"windsock"
	"windsock/store"
	"windsock/test/postgres"
)

// A file moves into PostgreSQL and is served there.
func TestAFileMovesIntoPostgres(t *testing.T) {
	file, url := filepath.Join(t.TempDir(), "w.db"), postgres.Schema(t)
	st, err := store.Open(t.Context(), file, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "shop"}, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	id := st.LogID()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if status := run(t.Context(), []string{"copy", "--from", file, "--to", url}, &out, &errs); status != 0 {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	if !regexp.MustCompile(`(?m)^deployments +1 rows  checksum [0-9a-f]{16}$`).MatchString(out.String()) || strings.Contains(out.String(), "search_path") {
		t.Errorf("it says\n%s", out.String())
	}
	out.Reset()
	if status := run(t.Context(), []string{"migrate", "--db", url}, &out, &errs); status != 0 || strings.Contains(out.String(), "applied") {
		t.Errorf("migrate: exit status %d, %s%s", status, out.String(), errs.String())
	}
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--db", url)
	ready := await(t, p.Err, "msg=ready")
	_, addr, _ := strings.Cut(ready, "address=")
	addr, database, _ := strings.Cut(addr, " database=")
	if database, _, _ = strings.Cut(database, " "); database != store.Redacted(url) {
		t.Errorf("the database is said to be %s", database)
	}
	resp, err := http.Get(addr + "/api/deployments/shop")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("shop: %s", resp.Status)
	}
	p.Stop()
	p.exits(t, 0)
	if st, err = store.Open(t.Context(), url, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if st.LogID() != id {
		t.Errorf("the log is %s, was %s", st.LogID(), id)
	}
}
