package api_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"windsock"
	"windsock/api"
)

// ledger is a log of so many events, of which the first are pruned.
type ledger struct {
	head, pruned int64
	reads        int
}

func (l *ledger) Head() int64                       { return l.head }
func (l *ledger) Wait(context.Context, int64) error { return nil }

func (l *ledger) Events(_ context.Context, after int64, limit int, _ windsock.EventFilter) (list []windsock.Event, err error) {
	if l.reads++; after < l.pruned {
		return nil, windsock.ErrPruned
	}
	for seq := after + 1; seq <= l.head && len(list) < limit; seq++ {
		list = append(list, windsock.Event{Seq: seq, Type: windsock.InstanceState, Reason: strings.Repeat("x", 300)})
	}
	return list, nil
}

var frameID = regexp.MustCompile(`(?m)^id: (\d+)$`)

// Whoever reads by the tail, at whatever steps, is sent each event once and in order, or is
// told that he has to read for himself.
func TestTailHasAllEventsInOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	log, tail := &ledger{head: 1}, &api.Tail{}
	at := make([]int64, 5) // how far each reader has come
	own := 0
	for range 2000 {
		log.head += random.Int64N(200)
		i := random.IntN(len(at))
		text, upTo, ok, err := tail.Since(t.Context(), log, at[i])
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			at[i], own = log.head, own+1
			continue
		}
		want := at[i]
		for _, id := range frameID.FindAllStringSubmatch(string(text), -1) {
			if want++; id[1] != fmt.Sprint(want) {
				t.Fatalf("reader %d is sent %s, want %d", i, id[1], want)
			}
		}
		if want != upTo || upTo != log.head {
			t.Fatalf("reader %d was sent all up to %d, the tail says %d, the newest is %d", i, want, upTo, log.head)
		}
		at[i] = upTo
	}
	if tail.Size() > 3*api.TailBytes {
		t.Errorf("it keeps %d bytes", tail.Size())
	}
	if own > 1000 {
		t.Errorf("%d times of 2000 one had to read for himself", own)
	}
}

func TestTailBeginsAnewWhenItLagsBehind(t *testing.T) {
	for name, change := range map[string]func(*ledger){
		"too far": func(l *ledger) { l.head += 1_000_000 },
		"pruned":  func(l *ledger) { l.head += 10; l.pruned = l.head - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			log, tail := &ledger{head: 5}, &api.Tail{}
			if _, _, ok, err := tail.Since(t.Context(), log, 5); !ok || err != nil {
				t.Fatal(ok, err)
			}
			change(log)
			reads := log.reads
			if _, _, ok, err := tail.Since(t.Context(), log, 5); ok || err != nil {
				t.Errorf("one who is behind: %t, %v", ok, err)
			}
			if log.reads > reads+1 {
				t.Errorf("it read %d pages", log.reads-reads)
			}
			log.head++
			if text, upTo, ok, err := tail.Since(t.Context(), log, log.head-1); !ok || err != nil || upTo != log.head || len(frameID.FindAll(text, -1)) != 1 {
				t.Errorf("one who is not: %q, %d, %t, %v", text, upTo, ok, err)
			}
		})
	}
}

// Two streams of everything, one of which goes on where it was, are sent what one with a
// filter that lets all through is sent.
func TestStreamsOfEverything(t *testing.T) {
	s := open(t)
	after := s.store.Head()
	s.detect("web-1", "FAIL DETECTED").want(200)
	s.detect("web-2", "FAIL DETECTED").want(200)
	news, again := s.stream(""), s.stream("", "Last-Event-ID", fmt.Sprint(after))
	filtered := s.stream(fmt.Sprintf("?pool=east&after=%d", after))
	var all []windsock.Event
	for s.store.Head() > after+int64(len(all)) {
		all = append(all, again.next())
	}
	old := len(all)
	s.detect("web-1", "START DETECTED").want(200)
	for s.store.Head() > after+int64(len(all)) {
		all = append(all, again.next())
	}
	if old < 3 || len(all) == old {
		t.Fatalf("%d events, then %d", old, len(all))
	}
	for i, want := range all {
		if got := filtered.next(); got.Seq != want.Seq || got.ID != want.ID {
			t.Errorf("with a filter it is sent %+v, without %+v", got, want)
		}
		if i >= old {
			if got := news.next(); got.Seq != want.Seq {
				t.Errorf("a new one is sent %+v, want %+v", got, want)
			}
		}
	}
}
