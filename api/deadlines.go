package api

import (
	"context"
	"net/http"
	"time"
)

const (
	bodyTime   = 30 * time.Second // for a body to arrive
	answerTime = time.Minute      // for an answer to be made and taken
	writeTime  = 10 * time.Second // for what a client waited for to be taken
)

// hurry bounds how long a request may take. The server lifts the deadline of the body
// once all of it is there, and that of the answer once it is taken.
func hurry(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	if r.ContentLength != 0 {
		conn.SetReadDeadline(time.Now().Add(bodyTime))
	}
	conn.SetWriteDeadline(time.Now().Add(answerTime))
}

// linger lets the next write to the client come so much later.
func linger(w http.ResponseWriter, later time.Duration) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(later + writeTime))
}

// untilStop returns a context that ends with ctx, after a while, with s.Stop, or soon after
// the caller is not known any more.
func (s *Server) untilStop(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, after)
	release := context.AfterFunc(s.Stop, cancel)
	s.whileKnown(ctx, cancel)
	return ctx, func() { release(); cancel() }
}
