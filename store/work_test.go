package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"windsock"
)

func TestWorkIsForTheHolderOfTheToken(t *testing.T) { eachDB(t, workIsForTheHolderOfTheToken) }

func workIsForTheHolderOfTheToken(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.runs("s1")
	work := func(instance string, token windsock.Secret) error {
		w, err := s.Work(t.Context(), instance, token, "http://w")
		w.Components = nil
		if r, also := s.WorkRevision(t.Context(), instance, token); !reflect.DeepEqual(r, w) || fmt.Sprint(also) != fmt.Sprint(err) {
			t.Errorf("without the components it is %v %v, with them %v %v", r, also, w, err)
		}
		return err
	}
	if err := work("s1", ""); !errors.Is(err, windsock.ErrUnauthorized) {
		t.Errorf("before there is one: %v", err)
	}
	first := must[windsock.Secret](t)(s.IssueToken(t.Context(), "s1"))
	if !strings.HasPrefix(string(first), "wsi_") || len(first) != 4+43 {
		t.Errorf("the token is %q", string(first))
	}
	if err := work("s1", first); err != nil {
		t.Error(err)
	}
	if err := work("s2", first); !errors.Is(err, windsock.ErrUnauthorized) || strings.Contains(err.Error(), string(first)) {
		t.Errorf("another's: %v", err)
	}
	second := must[windsock.Secret](t)(s.IssueToken(t.Context(), "s1"))
	if err := work("s1", first); !errors.Is(err, windsock.ErrUnauthorized) {
		t.Errorf("the one before: %v", err)
	}
	if err := work("s1", second); err != nil {
		t.Error(err)
	}
	if _, err := s.IssueToken(t.Context(), "none"); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("of no instance: %v", err)
	}
	for _, table := range []string{`instance_tokens`, `components`} {
		var rows []map[string]any
		r, err := s.read.Queryx(`SELECT * FROM ` + table)
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			row := map[string]any{}
			if err := r.MapScan(row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		if text := fmt.Sprint(rows); strings.Contains(text, string(second)[4:]) || len(rows) == 0 {
			t.Errorf("%s has the token: %s", table, text)
		}
	}
	if err := s.DeleteInstance(t.Context(), "s1", windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	if err := work("s1", second); !errors.Is(err, windsock.ErrUnauthorized) {
		t.Errorf("of what was removed: %v", err)
	}
}

func TestProvidersIDNamesAnInstanceToItsAgent(t *testing.T) {
	eachDB(t, providersIDNamesAnInstanceToItsAgent)
}

func providersIDNamesAnInstanceToItsAgent(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	declare(t, s.Store, "shop")
	if _, _, err := s.PutInstance(t.Context(), windsock.InstanceSpec{ID: "i", DeploymentID: "shop", ProviderID: "nova-1"}, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	token := must[windsock.Secret](t)(s.IssueToken(t.Context(), "nova-1"))
	if w := must[windsock.Work](t)(s.Work(t.Context(), "nova-1", token, "")); w.InstanceID != "i" {
		t.Errorf("work of %q", w.InstanceID)
	}
}

func TestAwaitWorkWakesTheInstancesConcerned(t *testing.T) {
	eachDB(t, awaitWorkWakesTheInstancesConcerned)
}

func awaitWorkWakesTheInstancesConcerned(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.runs("s2")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	woken := map[string]chan error{"s1": make(chan error, 1), "s2": make(chan error, 1)}
	for id, ch := range woken {
		rev := s.revisionOf(id)
		go func() { ch <- s.AwaitWork(ctx, id, rev) }()
	}
	s.runs("s1")
	if err := <-woken["s1"]; err != nil {
		t.Error(err)
	}
	rev := s.revisionOf("s1")
	if err := s.AwaitWork(ctx, "s1", rev-1); err != nil {
		t.Errorf("of an older revision: %v", err)
	}
	select {
	case err := <-woken["s2"]:
		t.Errorf("s2 is woken for nothing: %v", err)
	default:
	}
	s.done("s1", "db", "ip=1")
	if err := <-woken["s2"]; err != nil {
		t.Error(err)
	}
	rev = s.revisionOf("s2")
	go func() { woken["s2"] <- s.AwaitWork(ctx, "s2", rev) }()
	if err := s.DeleteInstance(t.Context(), "s2", windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	if err := <-woken["s2"]; err != nil && !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("removed: %v", err)
	}
	rev = s.revisionOf("s1")
	go func() { woken["s1"] <- s.AwaitWork(ctx, "s1", rev) }()
	cancel()
	if err := <-woken["s1"]; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if len(s.Store.work.all()) > 0 {
		t.Errorf("%v are waited for still", s.Store.work.all())
	}
}

func TestWorkOfAnotherProcessIsNoticed(t *testing.T) { eachDB(t, workOfAnotherProcessIsNoticed) }

func workOfAnotherProcessIsNoticed(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	other, err := Open(t.Context(), s.path, Options{Now: s.c.Now, Planner: planner{}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	done := make(chan error, 1)
	rev := s.revisionOf("s1")
	go func() { done <- s.AwaitWork(t.Context(), "s1", rev) }()
	if err := s.look(t.Context()); err != nil { // nothing is new
		t.Fatal(err)
	}
	record(t, other, instanceSaid("s1", "probe", windsock.Running))
	if err := s.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.done("s1", "db") // the key is one
}

func TestComponentsGoOnAfterARestart(t *testing.T) { eachDB(t, componentsGoOnAfterARestart) }

func componentsGoOnAfterARestart(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.reopen()
	s.runs("s1")
	s.reopen()
	task := s.task("s1", "db")
	s.says(tokenOf(task.SignalURL), windsock.Signal{Status: windsock.SignalStarted})
	s.reopen()
	if again := s.task("s1", "db"); again.ID != task.ID || again.SignalURL != task.SignalURL {
		t.Errorf("it is %+v, was %+v", again, task)
	}
	s.says(tokenOf(task.SignalURL), success("ip=1"))
	s.reopen()
	s.late(tokenOf(task.SignalURL), success("ip=1"), windsock.ComponentComplete)
	s.runs("s2")
	s.done("s2", "web")
	s.want("db:complete web:complete")
}

func TestKeyIsMadeOnce(t *testing.T) {
	path := t.TempDir() + "/w.db.key"
	keys := make([]string, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := keyOf(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(key)
		})
	}
	all.Wait()
	for _, k := range keys {
		if k != keys[0] || len(k) != keySize {
			t.Fatalf("keys are %x", keys)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(path[:strings.LastIndex(path, "/")]); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyOf(path); err == nil {
		t.Error("a key of five bytes is taken")
	}
}
