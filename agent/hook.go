package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// hooks run tasks.
type hooks struct {
	dir   string        // has a program for each group, and perhaps GROUP.bootstrap beside it
	state string        // what was bootstrapped, and a folder for each task that runs
	grace time.Duration // from SIGTERM to SIGKILL

	bootstrapping sync.Mutex
}

// A hook runs the task in a folder of its own. An error is why it failed, if the result
// does not tell.
type hook func(ctx context.Context, t *task, dir string) (result, error)

// run does the task. Its error is the cause of ctx, when that ended; all else is a result.
func (h *hooks) run(ctx context.Context, t *task) (result, error) {
	within := ctx
	if !t.DeadlineAt.IsZero() {
		var cancel func()
		within, cancel = context.WithDeadlineCause(ctx, t.DeadlineAt, errors.New("killed at its deadline"))
		defer cancel()
	}
	r, err := h.try(within, t)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return r.failed(err), nil
	}
	return r, nil
}

func (h *hooks) try(ctx context.Context, t *task) (result, error) {
	if !filepath.IsLocal(t.Group) || strings.ContainsAny(t.Group, "/\x00") || strings.HasSuffix(t.Group, ".bootstrap") {
		return nil, fmt.Errorf("%q cannot be the name of a hook", t.Group)
	}
	dir := filepath.Join(h.state, "run", fileName(t.ID))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if r, err := h.bootstrap(ctx, t, dir); err != nil {
		return r, fmt.Errorf("bootstrap of the hook %q: %w", t.Group, err)
	}
	hook, err := h.find(t.Group)
	if err != nil {
		return nil, err
	}
	return hook(ctx, t, dir)
}

// find returns the hook of a group: a program in the folder, or else one that is built in.
func (h *hooks) find(group string) (hook, error) {
	path := filepath.Join(h.dir, group)
	switch info, err := os.Stat(path); {
	case err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0):
		return nil, fmt.Errorf("the hook %s is not executable", path)
	case err == nil:
		return h.external(path), nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case group == "script":
		return h.script, nil
	case group == "ansible":
		return h.ansible, nil
	}
	return nil, fmt.Errorf("there is no hook for group %q in %s", group, h.dir)
}

// external is a hook that reads the task as JSON and prints what came of it as JSON, as
// those of Heat do. Whatever else it prints is its stdout.
func (h *hooks) external(path string) hook {
	return func(ctx context.Context, t *task, dir string) (result, error) {
		p := h.program(t, dir, path)
		p.stdin = t.raw
		out, err := p.run(ctx)
		r := out.result()
		said := parseResult([]byte(out.stdout))
		if said == nil {
			return r, err
		}
		if code, does := said[statusKey]; !does || out.code != 0 && fmt.Sprint(code) == "0" {
			said[statusKey] = out.code
		}
		for key, value := range r {
			if _, does := said[key]; !does && out.code != 0 {
				said[key] = value
			}
		}
		return said, err
	}
}

// bootstrap runs what makes the hook ready, or puts it there, once for each version of it.
// The result is that of one that failed.
func (h *hooks) bootstrap(ctx context.Context, t *task, dir string) (result, error) {
	path := filepath.Join(h.dir, t.Group+".bootstrap")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	h.bootstrapping.Lock()
	defer h.bootstrapping.Unlock()
	sum := sha256.Sum256(text)
	version, note := hex.EncodeToString(sum[:]), filepath.Join(h.state, "bootstrapped", t.Group)
	if done, err := os.ReadFile(note); err == nil && string(done) == version {
		return nil, nil
	}
	out, err := h.program(t, dir, path).run(ctx)
	if err == nil && out.code != 0 {
		err = fmt.Errorf("exit status %d", out.code)
	}
	if err != nil {
		return out.result(), err
	}
	return nil, writeFile(note, []byte(version))
}

// program is one that runs for the task.
func (h *hooks) program(t *task, dir, path string, args ...string) program {
	env := append(os.Environ(), taskVariable+"="+t.ID)
	return program{path: path, args: args, dir: dir, env: env, grace: h.grace}
}
