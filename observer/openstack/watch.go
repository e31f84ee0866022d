package openstack

import (
	"context"

	"windsock"
	"windsock/observer/openstack/notify"
)

// Watch implements observer.Watcher. A cloud whose notifications cannot be heard is looked
// at only when that is due.
func (p *Provider) Watch(ctx context.Context, listening func(), hint func(windsock.Subject)) error {
	if p.config.Notifications == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	return notify.Listen(ctx, notify.Config{URL: p.config.Notifications, Exchanges: p.config.Exchanges}, listening, hint)
}
