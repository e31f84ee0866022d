package monitors

import (
	"context"
	"errors"
	"net"
)

// Several processes may be able to call back, and one at a time does. One that was
// suspended may not know that it is another by now. So that is asked before anything is
// sent, and again before each byte of it: there may be long between.

var errNotMine = errors.New("another process calls back now")

// mine reports whether it still is for us to call back. If not, all calls end.
func (d *Deliverer) mine() bool {
	ok := d.Mine == nil || d.Mine()
	if !ok {
		d.stop()
	}
	return ok
}

// gated has nothing sent over the connections that are made so unless it is for us.
func (d *Deliverer) gated(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatedConn{c, d.mine}, nil
	}
}

type gatedConn struct {
	net.Conn
	mine func() bool
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if !c.mine() {
		return 0, errNotMine
	}
	return c.Conn.Write(p)
}
