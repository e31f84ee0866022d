package monitors

import (
	"context"
	"errors"
	"net"
)

// Several processes share the monitors. One that was suspended may not know that some are
// another's by now. So that is asked before anything is sent, and again before each byte of
// it: there may be long between. Connections are dropped when it turned out so, as what is
// still to be written to one may be of a request that is not ours any more.

var errNotMine = errors.New("another process calls back now")

func (d *Deliverer) era() int64 {
	if d.Era == nil {
		return 1
	}
	return d.Era()
}

// gated has nothing sent over the connections that are made so once the era is another.
func (d *Deliverer) gated(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c := &gatedConn{era: d.era(), now: d.era}
		if c.era == 0 {
			return nil, errNotMine
		}
		var err error
		if c.Conn, err = dial(ctx, network, address); err != nil {
			return nil, err
		}
		return c, nil
	}
}

type gatedConn struct {
	net.Conn
	era int64
	now func() int64
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if c.now() != c.era {
		return 0, errNotMine
	}
	return c.Conn.Write(p)
}
