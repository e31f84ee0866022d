package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"windsock"
)

// service is a small HTTP server that dies and comes back when it is told to, always
// at the same address.
type service struct {
	id      string
	address string // "": any, at the first start
	stop    func() // returns when nothing answers any more
}

func (s *service) start() error {
	l, err := net.Listen("tcp", cmp.Or(s.address, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	s.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		answerOn(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%s works\n", s.id)
		}))
	}()
	s.stop = func() {
		cancel()
		<-stopped
	}
	return nil
}

// spec declares the service as an instance, looked at every second.
func (s *service) spec(deployment string) windsock.InstanceSpec {
	return windsock.InstanceSpec{
		ID:           s.id,
		DeploymentID: deployment,
		Probe: &windsock.Probe{
			Type:     windsock.ProbeHTTP,
			Target:   "http://" + s.address + "/",
			Interval: windsock.Duration(time.Second),
			Timeout:  windsock.Duration(time.Second),
		},
	}
}
