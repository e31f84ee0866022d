package main

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"windsock"
	"windsock/store"
)

// KeepConfig says how much of the log of events is kept. What is zero was not said.
type KeepConfig struct {
	Age     Age   `json:"age"`
	Events  int64 `json:"events"`
	Horizon int64 `json:"horizon"` // so many times age and events, for a monitor that is behind
}

// defaultKeep is for who says nothing.
var defaultKeep = KeepConfig{Age: 30 * day, Events: 10_000_000, Horizon: 2}

// retention keeps as much of st as was said.
func (k KeepConfig) retention(st *store.Store) *store.Retention {
	return &store.Retention{
		Store:   st,
		Age:     time.Duration(cmp.Or(k.Age, defaultKeep.Age)),
		Events:  cmp.Or(k.Events, defaultKeep.Events),
		Horizon: cmp.Or(k.Horizon, defaultKeep.Horizon),
	}
}

// check bounds what was said, so that no product of it overflows.
func (k KeepConfig) check() error {
	switch {
	case k.Age != 0 && k.Age < Age(time.Minute):
		return windsock.Invalid("keep.age", "want at least a minute, got %s", k.Age)
	case k.Events < 0:
		return windsock.Invalid("keep.events", "want at least 1, got %d", k.Events)
	case k.Events > 1e12:
		return windsock.Invalid("keep.events", "want at most 10^12, got %d", k.Events)
	case k.Horizon < 0 || k.Horizon > 10:
		return windsock.Invalid("keep.horizon", "want 1 to 10, got %d", k.Horizon)
	}
	return nil
}

// An Age is a time that may be written in days: 30d.
type Age time.Duration

const (
	day    = Age(24 * time.Hour)
	maxAge = 10_000 * day
)

// UnmarshalText reads whole days, or a duration as Go writes it.
func (a *Age) UnmarshalText(text []byte) error {
	s := string(text)
	v, err := time.ParseDuration(s)
	if days, isDays := strings.CutSuffix(s, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		v = time.Duration(n) * time.Duration(day)
	}
	if err != nil || v <= 0 || Age(v) > maxAge {
		return windsock.Invalid("", "want an age such as 30d or 12h, of at most 10000d; got %q", windsock.Clip(s))
	}
	*a = Age(v)
	return nil
}

func (a Age) String() string {
	if a%day == 0 {
		return strconv.FormatInt(int64(a/day), 10) + "d"
	}
	return time.Duration(a).String()
}
