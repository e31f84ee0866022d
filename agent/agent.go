// Package agent runs on an instance what windsock has for it: it asks, runs each component
// with the hook of its group, and signals what came of it.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// An Agent runs the components of one instance.
type Agent struct {
	URL       *url.URL // where windsock answers
	Instance  string
	TokenFile string
	Hooks     string        // a folder: GROUP is the hook of that group, GROUP.bootstrap makes it ready
	State     string        // a folder of ours alone
	Parallel  int           // how many run at a time; 0: one
	Grace     time.Duration // for what runs when Run is to end
	Client    *http.Client
	Log       *slog.Logger

	killAfter  time.Duration // from SIGTERM to SIGKILL of a hook; 0: killAfter
	maxWaiting int           // bytes of results that wait to be taken, before nothing more is run; 0: maxWaiting
}

const (
	killAfter   = 10 * time.Second
	keepTrying  = 24 * time.Hour // to signal a result, beyond the deadline
	maxWaiting  = 64 << 20
	shortStream = 64 << 10 // what is left of a stream that was too large to be taken
)

// Why a hook was killed that did not come to its end.
var (
	errGone     = errors.New("it is not wanted any more")
	errStopping = errors.New("the agent ends")
)

// worker is an Agent that runs.
type worker struct {
	*Agent
	journal *journal
	hooks   *hooks
	stop    context.Context // ends when nothing more is to be begun
	hard    context.Context // ends when nothing may go on

	running map[string]running // by component: two runs of one never overlap
	held    []*task            // silent ones that were interrupted
	list    []*task            // what windsock has for us, in its order
	over    chan *task         // one that ran; nil: a result waits no more
	wg      sync.WaitGroup
}

type running struct {
	task *task
	kill context.CancelCauseFunc
}

// Run works until ctx ends. Then what runs has the grace to finish; what had to be killed
// is run again, or reported, by the next Run.
func (a *Agent) Run(ctx context.Context) error {
	if _, err := readToken(a.TokenFile); err != nil {
		return err
	}
	hooksDir, err := filepath.Abs(a.Hooks) // as hooks run in folders of their own
	if err != nil {
		return err
	}
	state, err := filepath.Abs(a.State)
	if err != nil {
		return err
	}
	grace := cmp.Or(a.killAfter, killAfter)
	j, err := openJournal(state, grace, a.Log)
	if err != nil {
		return err
	}
	defer j.close()
	hard, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(a.Grace, func() { kill(errStopping) }) })()
	w := &worker{
		Agent: a, journal: j, stop: ctx, hard: hard, over: make(chan *task), running: map[string]running{},
		hooks: &hooks{dir: hooksDir, state: state, grace: grace},
	}
	if err := w.recover(); err != nil {
		return err
	}
	lists := make(chan *list)
	w.wg.Go(func() { w.poll(lists) })
	for ctx.Err() == nil {
		w.begin()
		select {
		case <-ctx.Done():
		case l := <-lists:
			w.listed(l)
		case t := <-w.over:
			if t != nil {
				delete(w.running, t.component())
			}
		}
	}
	ended := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(ended)
	}()
	for {
		select {
		case <-w.over:
		case <-ended:
			return nil
		}
	}
}

// recover makes the best of what an agent that was killed has left. Its results are
// signalled before anything else is done.
func (w *worker) recover() error {
	interrupted, _ := w.journal.in(begun)
	for _, e := range interrupted {
		endOrphans(e.ID, w.hooks.grace)
		w.Log.Warn("was interrupted", "component", e.Component)
		switch {
		case e.Report:
			w.finish(&e, result{}.failed(errors.New("it was interrupted, as the agent was")))
		case e.Task != nil:
			if t, err := parseTask(e.Task); err == nil {
				w.held = append(w.held, t)
			}
		}
	}
	if err := os.RemoveAll(filepath.Join(w.State, "run")); err != nil {
		return err
	}
	unsent, _ := w.journal.in(finished)
	var first sync.WaitGroup
	for _, e := range unsent {
		first.Add(1)
		w.wg.Go(func() {
			w.deliver(&e, first.Done)
			w.over <- nil
		})
	}
	first.Wait()
	return nil
}

// poll passes on what windsock has for us, each time that it changes.
func (w *worker) poll(lists chan<- *list) {
	etag, tries, said := "", 0, ""
	for w.stop.Err() == nil {
		asked := time.Now()
		l, err := w.ask(w.stop, etag)
		switch {
		case w.stop.Err() != nil:
			return
		case err != nil:
			if said != err.Error() {
				said = err.Error()
				w.Log.Warn("windsock cannot be asked", "error", said)
			}
			pause(w.stop, backoff(tries, err))
			tries++
			continue
		case said != "":
			said = ""
			w.Log.Info("windsock can be asked again")
		}
		tries = 0
		if l == nil || l.etag == etag { // nothing new; nobody who says so at once keeps us busy
			pause(w.stop, time.Second-time.Since(asked))
		}
		if l == nil {
			continue
		}
		etag = l.etag
		select {
		case lists <- l:
		case <-w.stop.Done():
		}
	}
}

// listed heeds what windsock has for us: what runs and is not among it is killed.
func (w *worker) listed(l *list) {
	for _, err := range l.bad {
		w.Log.Error("a component is not understood", "error", err)
	}
	w.list = l.tasks
	wanted := map[string]bool{}
	for _, t := range slices.Concat(w.held, w.list) {
		wanted[t.ID] = true
	}
	for _, r := range w.running {
		switch {
		case r.task.silent():
			wanted[r.task.ID] = true
		case !wanted[r.task.ID]:
			r.kill(errGone)
		}
	}
	w.journal.forget(func(e entry) bool {
		return !wanted[e.ID] && (e.Phase == begun && w.running[e.Component].task == nil ||
			e.Phase == settled && e.settledAt.Before(l.asked))
	})
}

// begin runs what may be run, in order.
func (w *worker) begin() {
	for _, t := range slices.Concat(w.held, w.list) {
		if _, waiting := w.journal.in(finished); len(w.running) >= max(w.Parallel, 1) || waiting > cmp.Or(w.maxWaiting, maxWaiting) {
			return
		}
		if p := w.journal.phase(t.ID); p == finished || p == settled || w.running[t.component()].task != nil {
			continue
		}
		ctx, kill := context.WithCancelCause(w.hard)
		w.running[t.component()] = running{t, kill}
		w.wg.Go(func() {
			defer kill(nil)
			e := w.execute(ctx, t)
			w.over <- t
			if e != nil {
				w.deliver(e, func() {})
				w.over <- nil
			}
		})
	}
}

// execute runs a task. It returns nil when there is nothing to signal.
func (w *worker) execute(ctx context.Context, t *task) *entry {
	log := w.Log.With("component", t.component(), "action", t.Action)
	e := &entry{ID: t.ID, Component: t.component(), Phase: begun, SignalURL: t.SignalURL, DeadlineAt: t.DeadlineAt}
	e.Report = t.Options["on_interrupt"] == "report"
	if t.silent() {
		e.Task = t.raw
	}
	if err := w.journal.put(*e); err != nil {
		log.Error("the journal cannot be written", "error", err)
		if t.silent() {
			return nil
		}
		return w.finish(e, result{}.failed(err))
	}
	if t.SignalURL != "" {
		switch err := w.signal(ctx, t.SignalURL, []byte(`{"status":"started"}`), 5*time.Second); status(err) {
		case http.StatusConflict, http.StatusNotFound, http.StatusGone:
			if !t.silent() {
				log.Info("is over already", "error", err)
				w.settle(e)
				return nil
			}
		} // that it began is worth no more than one try
	}
	log.Info("runs", "group", t.Group)
	r, err := w.hooks.run(ctx, t)
	switch {
	case errors.Is(err, errGone):
		log.Info("was killed", "reason", err)
		w.settle(e)
		return nil
	case err != nil:
		log.Warn("was killed", "reason", err)
		return nil // as the journal has it
	}
	log.Info("has run", "status", r[statusKey])
	if t.silent() {
		w.settle(e)
		return nil
	}
	return w.finish(e, r)
}

// finish keeps the result until it is taken.
func (w *worker) finish(e *entry, r result) *entry {
	text, err := json.Marshal(r)
	if err == nil {
		e.Phase, e.Result = finished, text
		err = w.journal.put(*e)
	}
	if err != nil {
		w.Log.Error("a result cannot be kept", "component", e.Component, "error", err)
	}
	return e
}

func (w *worker) settle(e *entry) {
	e.Phase = settled
	if err := w.journal.put(*e); err != nil {
		w.Log.Error("the journal cannot be written", "component", e.Component, "error", err)
	}
}

// deliver signals the result until it is taken, or nobody wants it any more. It calls
// tried once it was tried.
func (w *worker) deliver(e *entry, tried func()) {
	tried = sync.OnceFunc(tried)
	defer tried()
	log := w.Log.With("component", e.Component)
	body, said := e.Result, ""
	for tries, lessened := 0, 0; ; tries++ {
		err := w.signal(w.hard, e.SignalURL, body, timeout)
		tried()
		switch status(err) {
		case http.StatusConflict:
			log.Info("was over before it was signalled")
			err = nil
		case http.StatusNotFound, http.StatusGone:
			log.Warn("is not known any more")
			err = nil
		case http.StatusRequestEntityTooLarge, http.StatusBadRequest, http.StatusUnprocessableEntity:
			log.Warn("its result is refused", "error", err, "bytes", len(body))
			if lessened++; lessened <= 2 {
				body = lessen(e.Result, err, lessened)
				continue
			}
			err = nil
		}
		switch {
		case err == nil:
			w.settle(e)
			return
		case w.hard.Err() != nil || w.stop.Err() != nil:
			return // the next Run goes on
		case time.Since(e.DeadlineAt) > keepTrying && !e.DeadlineAt.IsZero():
			log.Error("was never signalled", "error", err)
			w.settle(e)
			return
		}
		if said != err.Error() {
			said = err.Error()
			log.Warn("cannot be signalled yet", "error", said)
		}
		pause(w.stop, backoff(tries, err))
	}
}

// lessen is what is signalled instead of a result that was refused: first all but most of
// what was printed, then that it was refused.
func lessen(body []byte, refused error, times int) []byte {
	r := parseResult(body)
	for _, stream := range []string{stdoutKey, stderrKey} {
		if text, ok := r[stream].(string); ok {
			r[stream] = cut(text, shortStream)
		}
	}
	if times > 1 || status(refused) != http.StatusRequestEntityTooLarge {
		r = result{stdoutKey: r[stdoutKey], stderrKey: r[stderrKey], statusKey: r[statusKey]}.failed(
			errors.New("its outputs were not taken: " + refused.Error()))
	}
	text, err := json.Marshal(r)
	if err != nil {
		return body
	}
	return text
}
