package docker

import (
	"context"

	"github.com/moby/moby/client"

	"windsock"
)

// Watch implements observer.Watcher. The engine's answer begins before it listens for us,
// so it is asked for what happened since its clock was read.
func (p *Provider) Watch(ctx context.Context, listening func(), hint func(windsock.Subject)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer l.engine.Close()
	stream := l.engine.Events(ctx, client.EventsListOptions{Since: l.now, Filters: client.Filters{}.Add("type", "container").Add("event", told...)})
	select {
	case err := <-stream.Err:
		return err
	default:
		listening()
	}
	for {
		select {
		case e := <-stream.Messages:
			hint(windsock.Subject{Kind: windsock.KindInstance, ID: e.Actor.ID})
		case err := <-stream.Err:
			return err
		}
	}
}

// told are the events of a container that may change what there is to see of it.
var told = []string{"create", "start", "die", "stop", "oom", "pause", "unpause", "restart", "rename", "destroy", "health_status"}
