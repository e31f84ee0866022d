package main

import (
	"context"
	"fmt"
	"net"

	"windsock/api"
	"windsock/store"
)

// restrict has srv ask who calls. While there is no token, and nobody else to know a
// caller, it asks nobody; and then it has to listen where only this machine reaches it.
func (o *ServeOptions) restrict(ctx context.Context, srv *api.Server, st *store.Store, at *net.TCPAddr) error {
	srv.Verifiers = []api.Verifier{st}
	if o.Admin != nil {
		srv.Verifiers = append(srv.Verifiers, o.Admin)
	}
	if o.issuer != nil { // first: it sees by its form what is no token of it, without a look at the store
		srv.Verifiers = append([]api.Verifier{o.issuer}, srv.Verifiers...)
	}
	if len(srv.Verifiers) > 1 {
		return nil
	}
	if at.IP.IsLoopback() {
		srv.Open = st.Tokenless
		return nil
	}
	none, err := st.Tokenless(ctx)
	if err == nil && none {
		err = fmt.Errorf("whoever reaches %s could do everything, as there is no token: make one (windsock token create NAME --role admin --db %s), "+
			"or give --admin-token-file, or listen on 127.0.0.1", o.Listen, store.Redacted(o.DB))
	}
	return err
}
