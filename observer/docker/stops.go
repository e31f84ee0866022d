package docker

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"windsock"
)

// A stop is why a container ended that did so at a time, as it was found then. It is
// remembered, as the engine has only its last 256 events, and none of before it was started.
type stop struct {
	finished string
	verdict  verdict
}

// whoStopped says whether somebody asked a container to end that exited as one that
// crashed does.
func (l *look) whoStopped(ctx context.Context, c *container.InspectResponse) (verdict, error) {
	l.mu.Lock()
	known, ok := l.stops[c.ID]
	l.mu.Unlock()
	if ok && known.finished == c.State.FinishedAt {
		return known.verdict, nil
	}
	asked, told, err := l.lastRun(ctx, c)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{state: windsock.Failed, reason: ending(c.State)}
	switch {
	case asked:
		v = verdict{state: windsock.Stopped, reason: v.reason + ", as it was asked to end", requested: true}
	case !told && byDefault[c.State.ExitCode]:
		v = verdict{state: windsock.Stopped, reason: v.reason + "; the engine does not tell any more whether it was asked to", requested: true}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops[c.ID] = stop{c.State.FinishedAt, v}
	return v, nil
}

// byDefault are the exit statuses of what the engine ends, be it that it ends itself.
var byDefault = map[int]bool{137: true, 143: true}

// harmless are the signals by which programs are told something else than to end.
var harmless = map[string]bool{"1": true, "10": true, "12": true} // SIGHUP, SIGUSR1, SIGUSR2

// lastRun reads the engine's events of a container since it was last started: whether it
// was asked to end, and whether they go on until it did. That a signal was sent is noted
// before the container is seen to have ended.
func (l *look) lastRun(ctx context.Context, c *container.InspectResponse) (asked, told bool, err error) {
	now := look{engine: l.engine}
	if err := now.introduce(ctx); err != nil {
		return false, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := l.engine.Events(ctx, client.EventsListOptions{
		Since: c.State.StartedAt, Until: now.now,
		Filters: client.Filters{}.Add("container", c.ID).Add("event", "kill", "stop", "die"),
	})
	for {
		select {
		case e := <-stream.Messages:
			switch e.Action {
			case events.ActionKill:
				asked = asked || !harmless[e.Actor.Attributes["signal"]]
			case events.ActionStop:
				asked = true
			case events.ActionDie:
				told = true
			}
		case err := <-stream.Err:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return asked, told, err
		}
	}
}

// forget drops what is known of containers that are not among these.
func (p *Provider) forget(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.stops, func(id string, _ stop) bool {
		_, there := slices.BinarySearch(ids, id)
		return !there
	})
}
