package replicas

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// A reporter posts changes of one instance, one after the other, to whoever takes them.
type reporter struct {
	instance string
	said     []string         // all words that were acknowledged
	acked    map[int64]string // and those of which the answer told the seq
}

// run posts until ctx ends; the last word, too, until it is acknowledged.
//
// Who tries again says when he detected it: that makes one of the two, and a post that was
// given up and is read only later changes nothing. His clock is behind those of all
// replicas, since what is from the future counts as detected when it came.
func (p *reporter) run(ctx context.Context, t *testing.T, c *cluster) {
	for k := 0; ctx.Err() == nil && !t.Failed(); k++ {
		word := []string{"FAIL DETECTED", "START DETECTED"}[k%2]
		post := m{"state": word, "source": "test", "detected_at": time.Now().Add(-2 * skewBound).UTC().Format(time.RFC3339Nano)}
		for to := k; !t.Failed(); to++ {
			var out struct {
				Changed  bool   `json:"changed"`
				EventSeq *int64 `json:"event_seq"`
			}
			c.tries.Add(1)
			status, err := c.call(t.Context(), c.replicas[to%len(c.replicas)], http.MethodPost, "/api/monitors/deployment/instance/"+p.instance, post, &out)
			switch {
			case err == nil && status == http.StatusOK:
				p.said = append(p.said, word)
				if out.EventSeq != nil {
					p.acked[*out.EventSeq] = word
				} else if to == k {
					t.Errorf("%s: the first try of %s changed nothing", p.instance, word)
				}
			case err == nil && status < 500 && status != http.StatusTooManyRequests:
				t.Errorf("%s: %s is refused with %d", p.instance, word, status)
			default:
				wait(50 * time.Millisecond)
				continue
			}
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// An event as the log shows it.
type event struct {
	Seq          int64  `json:"seq"`
	Type         string `json:"type"`
	Kind         string `json:"kind"`
	SubjectID    string `json:"subject_id"`
	DeploymentID string `json:"deployment_id"`
	Word         string `json:"detection"`
	State        string `json:"observed_state"`
}

func (e event) subject() string { return e.Kind + " " + e.SubjectID }

// state reports whether it tells another state.
func (e event) state() bool { return e.Type == e.Kind+".state" }

// at is the event of a seq, or none.
func at(events []event, seq int64) (e event) {
	if seq <= int64(len(events)) {
		e = events[seq-1]
	}
	return e
}

// wordsOf are those in the log about an instance.
func wordsOf(events []event, instance string) (words []string) {
	for _, e := range events {
		if e.state() && e.subject() == "instance "+instance {
			words = append(words, e.Word)
		}
	}
	return words
}

// A reading is of one who follows the log by its seq, now at one replica and now at another.
type reading struct {
	mu     sync.Mutex
	events []event
	until  int64 // the last one there is to be; 0: go on
}

func (l *reading) all() []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.events)
}

func (l *reading) head() int64 { return int64(len(l.all())) }

// follow reads until end. It fails the test when an event is not the next.
func (l *reading) follow(t *testing.T, c *cluster) {
	for ask := 0; !t.Failed(); ask++ {
		var page struct{ Events []event }
		p, after := c.replicas[ask/8%len(c.replicas)], l.head()
		status, err := c.call(t.Context(), p, http.MethodGet, fmt.Sprintf("/api/events?limit=1000&wait=1s&after=%d", after), nil, &page)
		if err != nil || status != http.StatusOK {
			ask += 8 // another one; it may not have heard yet of what this one told
			wait(20 * time.Millisecond)
			continue
		}
		l.mu.Lock()
		for _, e := range page.Events {
			if after++; e.Seq != after {
				t.Errorf("%s tells of %d after %d", p.name, e.Seq, after-1)
				break
			}
			l.events = append(l.events, e)
		}
		done := l.until > 0 && after >= l.until
		l.mu.Unlock()
		if done {
			return
		}
	}
}

// end has it read no further than there is now anything to be read.
func (l *reading) end(t *testing.T, c *cluster) {
	var page struct{ Head int64 }
	c.must(t, http.MethodGet, "/api/events?limit=1", nil, &page)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = page.Head
}
