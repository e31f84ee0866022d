package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"windsock"
)

// What callers can act on they can act on in another process, too.
func TestFailuresElsewhere(t *testing.T) {
	for _, is := range []error{windsock.ErrNotFound, windsock.ErrTooMany, windsock.ErrUnavailable, windsock.ErrConflict, context.DeadlineExceeded} {
		text := answerTo(t.Context(), `{}`, func(context.Context, question) reply {
			return reply{Failure: failureOf(fmt.Errorf("web-1: %w", is))}
		})
		var r reply
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if err := r.Failure.err(); !errors.Is(err, is) || err.Error() != "web-1: "+is.Error() {
			t.Errorf("%v became %v", is, err)
		}
	}
}

func TestAnswersThatCannotBeGiven(t *testing.T) {
	for name, c := range map[string]struct {
		question string
		reply    reply
		want     error
	}{
		"the question is of another version": {`{"check": 7}`, reply{}, windsock.ErrUnavailable},
		"the answer is too long":             {`{}`, reply{Ping: windsock.Pong{Answer: strings.Repeat("x", maxReply)}}, windsock.ErrTooMany},
	} {
		t.Run(name, func(t *testing.T) {
			var r reply
			text := answerTo(t.Context(), c.question, func(context.Context, question) reply { return c.reply })
			if err := json.Unmarshal([]byte(text), &r); err != nil || !errors.Is(r.Failure.err(), c.want) {
				t.Errorf("got %v (%v), want %v", r.Failure.err(), err, c.want)
			}
		})
	}
}
