package docker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"windsock"
)

const finished = "2026-11-30T15:00:00.5Z"

// TestWhatAContainerIs goes through what the engine says of one, and what that means.
func TestWhatAContainerIs(t *testing.T) {
	exited := func(code int) object {
		return object{"Status": "exited", "ExitCode": code, "StartedAt": "2026-11-30T14:00:00Z", "FinishedAt": finished}
	}
	policy := func(name string, most int) object {
		return object{"HostConfig": object{"RestartPolicy": object{"Name": name, "MaximumRetryCount": most}}}
	}
	killed := func(signal string) []object {
		return []object{event("kill", id(1), object{"signal": signal}), event("die", id(1), object{"exitCode": "137"})}
	}
	oom := exited(137)
	oom["OOMKilled"] = true
	for name, c := range map[string]struct {
		state     object
		more      object
		events    []object
		want      windsock.State
		requested bool
		reason    string
	}{
		"healthy":                                {object{"Status": "running", "Health": object{"Status": "healthy"}}, nil, nil, windsock.Running, false, ""},
		"no health check":                        {object{"Status": "running", "Health": object{"Status": "none"}}, nil, nil, windsock.Running, false, ""},
		"not yet healthy":                        {object{"Status": "running", "Health": object{"Status": "starting"}}, nil, nil, windsock.Starting, false, ""},
		"unhealthy says what its check said":     {object{"Status": "running", "Health": object{"Status": "unhealthy", "Log": []any{object{"ExitCode": 1, "Output": "no route\n"}}}}, nil, nil, windsock.Failed, false, "its health check exited with 1: no route"},
		"health in a word we do not know":        {object{"Status": "running", "Health": object{"Status": "dizzy"}}, nil, nil, windsock.Unknown, false, "an unknown word"},
		"paused by somebody":                     {object{"Status": "paused"}, nil, nil, windsock.Suspended, true, ""},
		"not yet started":                        {object{"Status": "created"}, nil, nil, windsock.Starting, false, ""},
		"cannot be started":                      {object{"Status": "created", "ExitCode": 127, "Error": "no such file"}, nil, nil, windsock.Failed, false, "it cannot be started: no such file"},
		"crashed, is started again":              {object{"Status": "restarting", "ExitCode": 7}, object{"RestartCount": 3}, nil, windsock.Failed, false, "it exited with 7, and is started again (3 times so far)"},
		"did its work, is started again":         {object{"Status": "restarting"}, nil, nil, windsock.Starting, false, "it exited with 0, and is started again (0 times so far)"},
		"did its work":                           {exited(0), nil, nil, windsock.Stopped, true, "it exited with 0"},
		"crashed":                                {exited(7), nil, []object{event("die", id(1), nil)}, windsock.Failed, false, "it exited with 7"},
		"crashed long ago":                       {exited(7), nil, nil, windsock.Failed, false, "it exited with 7"},
		"had no memory":                          {oom, nil, killed("15"), windsock.Failed, false, "it exited with 137 (SIGKILL), killed as it had no memory left"},
		"stopped by somebody":                    {exited(137), nil, killed("9"), windsock.Stopped, true, "it exited with 137 (SIGKILL), as it was asked to end"},
		"stopped, and has a status of its own":   {exited(2), nil, killed("15"), windsock.Stopped, true, "it exited with 2, as it was asked to end"},
		"killed from outside":                    {exited(137), nil, []object{event("die", id(1), nil)}, windsock.Failed, false, "it exited with 137 (SIGKILL)"},
		"told to read its settings, and crashed": {exited(1), nil, killed("1"), windsock.Failed, false, "it exited with 1"},
		"another was stopped":                    {exited(1), nil, []object{event("kill", id(2), object{"signal": "15"})}, windsock.Failed, false, "it exited with 1"},
		"killed, too long ago to know by whom":   {exited(143), nil, nil, windsock.Stopped, true, "it exited with 143 (SIGTERM); the engine does not tell any more whether it was asked to"},
		"would have been started again":          {exited(1), policy("always", 0), nil, windsock.Stopped, true, "it exited with 1, as it was asked to end"},
		"would have had another try":             {exited(1), policy("on-failure", 3), nil, windsock.Stopped, true, "it exited with 1, as it was asked to end"},
		"was tried often enough":                 {exited(1), object{"RestartCount": 3, "HostConfig": object{"RestartPolicy": object{"Name": "on-failure", "MaximumRetryCount": 3}}}, nil, windsock.Failed, false, "it exited with 1"},
		"is being removed":                       {object{"Status": "removing"}, nil, nil, windsock.Stopping, true, ""},
		"could not be removed":                   {object{"Status": "dead"}, nil, nil, windsock.Failed, false, "the engine could not remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.put(id(1), "web-1", c.state, nil, c.more)
			f.events = c.events
			s := check(t, f.provider(Config{}), id(1))
			if s.State != c.want || s.Requested != c.requested || s.Reason != c.reason {
				t.Errorf("%v is %s, requested %t, %q; want %s, %t, %q", c.state, s.State, s.Requested, s.Reason, c.want, c.requested, c.reason)
			}
		})
	}
}

func check(t *testing.T, p *Provider, id string) windsock.Sighting {
	t.Helper()
	s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhoStoppedItIsAskedOnceForEachStop(t *testing.T) {
	f := newFake(t)
	state := object{"Status": "exited", "ExitCode": 137, "StartedAt": "2026-11-30T14:00:00Z", "FinishedAt": finished}
	f.put(id(1), "web-1", state, nil, nil)
	f.events = []object{event("kill", id(1), object{"signal": "9"}), event("die", id(1), nil)}
	p := f.provider(Config{})
	check(t, p, id(1))
	f.with(func() { f.events = nil }) // the engine was started anew
	if s := check(t, p, id(1)); !s.Requested || strings.Count(strings.Join(f.asks(), " "), "events") != 1 {
		t.Errorf("looked at again it is %+v", s)
	}
	f.put(id(1), "web-1", object{"Status": "exited", "ExitCode": 1, "StartedAt": finished, "FinishedAt": "2026-11-30T15:30:00Z"}, nil, nil)
	if s := check(t, p, id(1)); s.State != windsock.Failed {
		t.Errorf("when it crashed the next time it is %+v", s)
	}
	suite{f}.Lose(id(1))
	if err := p.Observe(t.Context(), func([]windsock.Sighting) error { return nil }); err != nil || len(p.stops) != 0 {
		t.Errorf("%v; of what is gone %v is remembered", err, p.stops)
	}
}

func TestWhereAContainerBelongs(t *testing.T) {
	for name, c := range map[string]struct {
		labels              map[string]string
		groupBy             string
		deployment, service string
	}{
		"Compose":                     {map[string]string{"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}, "", "shop", "web"},
		"Swarm":                       {map[string]string{"com.docker.stack.namespace": "shop", "com.docker.swarm.service.name": "shop_web"}, "", "shop", "shop_web"},
		"our label goes first":        {map[string]string{"windsock.deployment": "till", "com.docker.compose.project": "shop"}, "", "till", ""},
		"no name of a deployment":     {map[string]string{"windsock.deployment": "host:box", "com.docker.compose.project": "shop"}, "", "shop", ""},
		"run once beside the service": {map[string]string{"com.docker.compose.project": "shop", "com.docker.compose.oneoff": "True"}, "", "", ""},
		"run once, and wanted":        {map[string]string{"windsock.deployment": "till", "com.docker.compose.oneoff": "True"}, "", "till", ""},
		"no label":                    {nil, "", "host:box-1", ""},
		"no label, and none wanted":   {nil, "none", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.put(id(1), "web-1", object{"Status": "running"}, c.labels, nil)
			var shown []windsock.Sighting
			err := f.provider(Config{GroupBy: c.groupBy}).Observe(t.Context(), func(page []windsock.Sighting) error {
				shown = append(shown, page...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			s := shown[len(shown)-1]
			if s.Deployment != c.deployment || s.Assembly != c.service || s.Metadata["host"] != "box-1" || s.Metadata["image"] != "nginx:1.25" || s.Address != "172.18.0.2" {
				t.Errorf("%v is shown as %+v", c.labels, s)
			}
			if d := shown[2]; c.deployment != "" && (len(shown) != 4 || !slices.Equal(d.RunsOn, []string{shown[0].ID}) || d.ID != c.deployment || d.Pool != "box-1" || d.State != "") {
				t.Errorf("its deployment is shown as %+v", d)
			}
		})
	}
}

func TestWhatTheEngineTellsIsHeard(t *testing.T) {
	f := newFake(t)
	hints := make(chan windsock.Subject)
	lost := make(chan error, 1)
	go func() {
		lost <- f.provider(Config{}).Watch(t.Context(), func() { hints <- windsock.Subject{} }, func(s windsock.Subject) { hints <- s })
	}()
	<-hints // it listens
	f.next <- event("exec_start: /app health", id(1), nil)
	f.next <- event("health_status: unhealthy", id(2), nil)
	if got := <-hints; got != (windsock.Subject{Kind: windsock.KindInstance, ID: id(2)}) {
		t.Errorf("%v was hinted at", got)
	}
	close(f.next)
	if err := <-lost; err == nil {
		t.Error("that the events ended is no error")
	}
}

func TestAnEngineThatIsAwayIsNotListenedTo(t *testing.T) {
	f := newFake(t)
	p := f.provider(Config{})
	f.srv.Close()
	err := p.Watch(t.Context(), func() { t.Error("it listens") }, nil)
	if err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatIsWrongWithTheConfigurationIsSaid(t *testing.T) {
	for text, c := range map[string]Config{
		"group_by": {GroupBy: "label"},
		"host":     {Host: "ssh://box"},
		"certs":    {Host: "unix:///run/docker.sock", Certs: "/etc/docker"},
		"ca.pem":   {Host: "tcp://box:2376", Certs: t.TempDir()},
	} {
		if _, err := New(c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: the error is %v, it does not name %q", c, err, text)
		}
	}
}
