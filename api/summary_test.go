package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
	"windsock/api"

	"github.com/google/go-cmp/cmp"
)

func TestSummaryCountsAllThereIs(t *testing.T) {
	s := open(t)
	s.call("PUT", "/api/deployments/blog", `{"pool":"west"}`).want(201)
	s.call("POST", "/api/monitors/add", "address=10.0.0.1&port=80", "Content-Type", formType).want(201)
	s.detect("web-1", "START DETECTED").want(200)
	s.detect("web-2", "FAIL DETECTED").want(200)

	var sum windsock.ModelSummary
	if err := json.Unmarshal(s.call("GET", "/api/summary", "").want(200).body, &sum); err != nil {
		t.Fatal(err)
	}
	pools := s.call("GET", "/api/pools", "").want(200).field("pools")
	if got := s.call("GET", "/api/summary", "").want(200).field("pools"); len(got.([]any)) != 2 {
		t.Errorf("pools %v", got)
	} else if d := cmp.Diff(pools, got); d != "" {
		t.Errorf("other pools than at /api/pools: %s", d)
	}
	for what, n := range map[string][2]int{
		"degraded deployments": {sum.Deployments[windsock.Degraded], 1},
		"unknown deployments":  {sum.Deployments[windsock.Unknown], 1},
		"running instances":    {sum.Instances[windsock.Running], 1},
		"failed instances":     {sum.Instances[windsock.Failed], 1},
		"drift":                {sum.Drift, 1},
		"stale":                {sum.Stale, 0},
		"idle monitors":        {sum.Monitors["idle"], 1},
		"the newest event":     {int(sum.Seq), int(s.store.Head())},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: got %d, want %d; %+v", what, n[0], n[1], sum)
		}
	}
}

// counted is a store of which the counting is counted, and takes a while.
type counted struct {
	api.Store
	head  int64
	times int
	fails error
}

func (c *counted) Head() int64 { return c.head }

func (c *counted) Summary(context.Context) (windsock.ModelSummary, error) {
	time.Sleep(10 * time.Millisecond)
	c.times++
	return windsock.ModelSummary{Seq: c.head}, c.fails
}

func TestSummaryIsMadeNoMoreOftenThanItMayCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, d := &counted{head: 1}, &api.Digest{}
		ask := func(what string, want int) {
			t.Helper()
			if _, err := d.Of(t.Context(), c); !errors.Is(err, c.fails) {
				t.Errorf("%s: %v", what, err)
			}
			if c.times != want {
				t.Errorf("%s: counted %d times, want %d", what, c.times, want)
			}
		}
		ask("at first", 1)
		c.head = 2
		ask("something happened, just now", 1)
		time.Sleep(199 * time.Millisecond)
		ask("something happened, and little time went by", 1)
		time.Sleep(time.Millisecond)
		ask("something happened, and enough time went by", 2)
		time.Sleep(4 * time.Second)
		ask("nothing happened", 2)
		time.Sleep(time.Second)
		ask("nothing happened for long", 3)
		c.head, c.fails = 3, errors.New("no")
		time.Sleep(time.Second)
		ask("it fails", 4)
		c.fails = nil
		ask("it does not fail again", 5)
	})
}
