package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"windsock"
)

func TestDemoShowsTheMainJob(t *testing.T) {
	p := start(t, "demo", "--exit", "--listen", "127.0.0.1:0")
	p.exits(t, 0)
	said := strings.Join(all(p.Out), "\n")
	rest := said
	for _, next := range []string{ // one after the other
		"A monitor is added",
		"shop is declared",
		"unknown → running",
		"The service cart dies",
		"running → failed",
		"curl -d state='FAIL DETECTED'",
		"stock     running → failed",
		"curl -d state='START DETECTED'",
		"stock     failed → running",
		"The service cart comes back",
		"failed → running",
		"every way back",
	} {
		_, after, found := strings.Cut(rest, next)
		if !found {
			t.Fatalf("no %q where it should be in:\n%s", next, said)
		}
		rest = after
	}
	if complaints := all(p.Err); len(complaints) > 0 {
		t.Errorf("it complained:\n%s", strings.Join(complaints, "\n"))
	}
}

func TestDemoStaysUpAndTakesAnotherPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := start(t, "demo", "--listen", taken.Addr().String())
	await(t, p.Out, taken.Addr().String()+" is taken")
	await(t, p.Out, "until ^C")
	line := await(t, p.Out, "/api/deployments/shop")
	resp, err := http.Get(line[strings.Index(line, "http://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), `"observed_state":"running"`) {
		t.Errorf("the deployment at the end: %s", body)
	}
	p.Stop()
	p.exits(t, 0)
}

func TestDemoCanBeInterrupted(t *testing.T) {
	p := start(t, "demo", "--exit", "--listen", "127.0.0.1:0")
	await(t, p.Out, "shop is declared")
	p.Stop()
	p.exits(t, 0)
	if complaints := all(p.Err); len(complaints) > 0 {
		t.Errorf("it complained:\n%s", strings.Join(complaints, "\n"))
	}
}

func TestDemoSaysWhatIsMissing(t *testing.T) {
	p := start(t, "demo", "--exit", "--listen", "127.0.0.1:0", "--timeout", "1ns")
	p.exits(t, 1)

	d := &demo{out: io.Discard, callbacks: make(chan *callback, 1)}
	d.callbacks <- &callback{Kind: windsock.KindInstance, ID: "web", said: callbackBody{Word: windsock.StartDetected}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := d.await(ctx,
		told{windsock.KindInstance, "web", windsock.StartDetected},
		told{windsock.KindDeployment, "shop", windsock.FailDetected})
	if want := "the monitor was not told in time: FAIL DETECTED of deployment shop"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
