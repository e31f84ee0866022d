package main

import (
	"bytes"
	"context"
	"log"
	"net"
	"net/http"
	"time"
)

// answerOn answers on l until ctx ends and then lets requests under way come to their
// end, as long as drain allows. How long a request may take is the handler's business:
// some are meant to last. The other listeners end with l.
func answerOn(ctx context.Context, l net.Listener, h http.Handler, more ...net.Listener) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(unshaken{}, "", 0),
	}
	defer srv.Close() // whatever ended it, all of them end
	for _, l := range more {
		go srv.Serve(l)
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	if stop() {
		return err // it was not us who ended it
	}
	<-stopped
	return nil
}

// unshaken is the log but for handshakes of TLS that failed: any stranger could fill the
// disk with those.
type unshaken struct{}

func (unshaken) Write(line []byte) (int, error) {
	if !bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		log.Print(string(line))
	}
	return len(line), nil
}
