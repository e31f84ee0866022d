package api

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"windsock"
)

const (
	burst   = 5      // so many seconds' worth of requests may come at once
	guesses = 20     // tokens that are nobody's may come at once from an address, and so many a minute
	tracked = 10_000 // addresses, and callers, that are remembered; those silent the longest are forgotten
)

// limits bound how often an address and a caller may ask, and how often an address may
// come with a token that is nobody's. Who is on loopback is not limited. Memory is bounded.
type limits struct {
	addresses *buckets[netip.Prefix]
	callers   *buckets[string]
	guesses   *buckets[netip.Prefix]
	good      *lru.Cache[uint64, struct{}] // credentials that were somebody's, hashed
	seed      maphash.Seed
	refused   *prometheus.CounterVec
}

// newLimits allows so many requests a second; nil, that is any number, when it is 0.
func newLimits(perSecond int, reg prometheus.Registerer) *limits {
	if perSecond == 0 {
		return nil
	}
	l := &limits{
		addresses: newBuckets[netip.Prefix]("address", rate.Limit(perSecond), burst*perSecond),
		callers:   newBuckets[string]("token", rate.Limit(perSecond), burst*perSecond),
		guesses:   newBuckets[netip.Prefix]("guesses", rate.Limit(guesses)/60, guesses),
		seed:      maphash.MakeSeed(),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_http_requests_limited_total",
			Help: "Requests answered 429: too many of one address, of one token, or too many guesses of an address.",
		}, []string{"limit"}),
	}
	l.good, _ = lru.New[uint64, struct{}](tracked) // it fails for sizes below 1 only
	reg.MustRegister(l.refused)
	return l
}

// limitedOf is the network that counts as one address: who has IPv6 has a /64 of them.
// Loopback has none.
func limitedOf(r *http.Request) (network netip.Prefix, limited bool) {
	a := clientOf(r)
	bits := 32
	if a.Is6() {
		bits = 64
	}
	network, _ = a.WithZone("").Prefix(bits)
	return network, !a.IsLoopback()
}

// address takes a request of an address, or returns that there were too many.
func (l *limits) address(w http.ResponseWriter, r *http.Request) error {
	if l == nil {
		return nil
	}
	network, limited := limitedOf(r)
	if !limited {
		return nil
	}
	return l.counted(l.addresses.take(w, network))
}

// caller does so with the one whom r is for, when that is somebody.
func (l *limits) caller(w http.ResponseWriter, r *http.Request) error {
	if l == nil {
		return nil
	}
	name := windsock.PrincipalOf(r.Context()).Name
	if _, limited := limitedOf(r); !limited || name == "" {
		return nil
	}
	return l.counted(l.callers.take(w, name))
}

func (l *limits) counted(err error) error {
	var too *tooMany
	if errors.As(err, &too) {
		l.refused.WithLabelValues(too.limit).Inc()
	}
	return err
}

// try returns an error if the address of r has guessed too often for its credential to be
// looked at. One that was somebody's is, or a stranger could keep all out who share his
// address.
func (l *limits) try(r *http.Request, credential string) error {
	if l == nil {
		return nil
	}
	network, limited := limitedOf(r)
	if !limited || l.good.Contains(maphash.String(l.seed, credential)) {
		return nil
	}
	return l.counted(l.guesses.has(network))
}

// tried notes what came of that.
func (l *limits) tried(r *http.Request, credential string, err error) {
	if l == nil {
		return
	}
	switch network, limited := limitedOf(r); {
	case !limited:
	case err == nil:
		l.good.Add(maphash.String(l.seed, credential), struct{}{})
	case errors.Is(err, windsock.ErrUnauthorized), errors.Is(err, windsock.ErrNotFound):
		l.guesses.of(network).Allow()
		l.good.Remove(maphash.String(l.seed, credential))
	}
}

// guarded is for a handler that asks for a token of its own, in the header or in the path.
func (s *Server) guarded(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		credential := r.Header.Get("Authorization") + r.PathValue("token")
		if err := s.limits.try(r, credential); err != nil {
			return err
		}
		err := h(w, r)
		s.limits.tried(r, credential, err)
		return err
	}
}

// buckets are of tokens, one for each key; a request takes one.
type buckets[K comparable] struct {
	name   string
	rate   rate.Limit
	burst  int
	policy []string // as a header
	all    *lru.Cache[K, *rate.Limiter]
}

func newBuckets[K comparable](name string, limit rate.Limit, burst int) *buckets[K] {
	all, _ := lru.New[K, *rate.Limiter](tracked)
	policy := fmt.Sprintf("%q;q=%d;w=%d", name, burst, int(float64(burst)/float64(limit)))
	return &buckets[K]{name, limit, burst, []string{policy}, all}
}

func (b *buckets[K]) of(key K) *rate.Limiter {
	if l, ok := b.all.Get(key); ok {
		return l
	}
	l := rate.NewLimiter(b.rate, b.burst)
	if other, was, _ := b.all.PeekOrAdd(key, l); was {
		return other
	}
	return l
}

// take takes one, and says how many are left (draft-ietf-httpapi-ratelimit-headers-10).
func (b *buckets[K]) take(w http.ResponseWriter, key K) error {
	l, now := b.of(key), time.Now()
	taken := l.AllowN(now, 1)
	left := l.TokensAt(now)
	h := w.Header()
	h["Ratelimit-Policy"] = append(h["Ratelimit-Policy"], b.policy...)
	h.Add("Ratelimit", b.state(left))
	if !taken {
		return b.empty(left)
	}
	return nil
}

// has reports an error unless there is one to take.
func (b *buckets[K]) has(key K) error {
	if left := b.of(key).Tokens(); left < 1 {
		return b.empty(left)
	}
	return nil
}

// state says how many are left, and in how many seconds all will be.
func (b *buckets[K]) state(left float64) string {
	s := make([]byte, 0, 40)
	s = append(append(append(s, '"'), b.name...), `";r=`...)
	s = strconv.AppendInt(s, int64(max(left, 0)), 10)
	s = append(s, ";t="...)
	return string(strconv.AppendInt(s, int64(math.Ceil((float64(b.burst)-left)/float64(b.rate))), 10))
}

func (b *buckets[K]) empty(left float64) error {
	return &tooMany{b.name, time.Duration((1 - left) / float64(b.rate) * float64(time.Second))}
}

// tooMany is that a limit was reached, and when there is room again.
type tooMany struct {
	limit string
	wait  time.Duration
}

func (t *tooMany) Error() string {
	return map[string]string{
		"address": "too many requests come from this address",
		"token":   "too many requests come with this token",
		"guesses": "too many tokens that are nobody's came from this address",
	}[t.limit] + "; the header Retry-After says when to come again"
}

func (t *tooMany) Unwrap() error { return errRate }

// seconds is how long to wait, as Retry-After has it.
func (t *tooMany) seconds() string {
	return strconv.Itoa(int(math.Ceil(t.wait.Seconds())))
}
