package monitors

import "sync"

// A pool does one piece of work after the other for the monitors that stand in line, for
// limit of them at a time. While nobody does it has no goroutine.
type pool struct {
	limit int
	work  func(*monitor) (again bool) // again: back to the end of the line

	mu      sync.Mutex
	line    []*monitor
	running int
	closed  bool
	workers sync.WaitGroup
}

// add puts m at the end of the line, unless the pool is closed.
func (p *pool) add(m *monitor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.line = append(p.line, m)
	if p.running < p.limit {
		p.running++
		p.workers.Go(p.run)
	}
}

func (p *pool) run() {
	for m := p.next(nil); m != nil; {
		var again *monitor
		if p.work(m) {
			again = m
		}
		m = p.next(again)
	}
}

// next returns the first in line, after again was put at its end; nil ends the worker.
func (p *pool) next(again *monitor) *monitor {
	p.mu.Lock()
	defer p.mu.Unlock()
	if again != nil && !p.closed {
		p.line = append(p.line, again)
	}
	if len(p.line) == 0 {
		p.line = nil
		p.running--
		return nil
	}
	m := p.line[0]
	p.line[0] = nil
	p.line = p.line[1:]
	return m
}

// crowded reports whether more than half of those who may be at work are.
func (p *pool) crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running > p.limit/2
}

// close sends home who is still in line; what is under way goes on.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.line = nil
}
