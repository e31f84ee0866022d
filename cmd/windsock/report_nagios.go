package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"windsock"
)

// ReportNagiosCmd is "windsock report nagios".
type ReportNagiosCmd struct {
	sending
	Host     string `help:"Name or address of the host."`
	Service  string `help:"The service; none: it is about the host."`
	State    string `help:"OK, WARNING, CRITICAL, UNKNOWN, UP, DOWN or UNREACHABLE."`
	Type     string `name:"state-type" help:"SOFT or HARD: a soft state says nothing." default:"HARD"`
	Notice   string `name:"notification-type" help:"Of a notification: FLAPPINGSTART and those that are not about the state say nothing."`
	Output   string `help:"What the plugin said."`
	Instance string `help:"Id of the instance, if it is known otherwise than by the host."`
	At       string `help:"When, in seconds since 1970 (default: now)."`
	Passive  bool   `help:"Read results of passive checks from standard input: external commands, or lines as send_nsca takes them."`
}

// Run reports what the flags say or, of passive checks, each line.
func (c *ReportNagiosCmd) Run(ctx context.Context, io stdio) error {
	if c.Passive {
		return c.passive(ctx, io, os.Stdin)
	}
	if c.Host == "" || c.State == "" {
		return windsock.Invalid("--host", "is required, and so is --state, unless --passive")
	}
	return c.one(ctx, io, check{c.Host, c.Service, c.State, c.At, c.Output})
}

// A check is a result of one.
type check struct{ host, service, state, at, output string }

func (c *ReportNagiosCmd) one(ctx context.Context, io stdio, k check) error {
	body := map[string]string{"host": k.host, "state": strings.ToUpper(k.state), "state_type": c.Type, "at": k.at}
	if k.at == "" {
		body["at"] = now()
	}
	for name, value := range map[string]string{"service": k.service, "output": k.output, "notification_type": c.Notice, "instance_id": c.Instance} {
		if value != "" {
			body[name] = value
		}
	}
	return c.report(ctx, io, k.host+" "+k.service, reportPath("nagios"), body, false)
}

// passive reports the lines that are results of checks, and tells of those that are not.
func (c *ReportNagiosCmd) passive(ctx context.Context, out stdio, in io.Reader) error {
	var failed error
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		k, ok := parseCheck(lines.Text())
		if !ok {
			fmt.Fprintf(out.err, "windsock: line %d is no result of a check\n", n)
			failed = exit(1)
			continue
		}
		if err := c.one(ctx, out, k); err != nil {
			failed = err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return failed
}

var (
	serviceStates = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}
	hostStates    = [...]string{"UP", "DOWN", "UNREACHABLE"}
)

// parseCheck reads "[1796014539] PROCESS_SERVICE_CHECK_RESULT;host;service;2;output", the
// same of a host, or "host<tab>service<tab>2<tab>output".
func parseCheck(line string) (k check, ok bool) {
	var parts []string
	if rest, is := strings.CutPrefix(line, "["); is {
		at, command, _ := strings.Cut(rest, "] ")
		k.at = at
		name, args, _ := strings.Cut(command, ";")
		switch name {
		case "PROCESS_SERVICE_CHECK_RESULT":
			parts = strings.SplitN(args, ";", 4)
		case "PROCESS_HOST_CHECK_RESULT":
			if host, rest, ok := strings.Cut(args, ";"); ok {
				parts = append([]string{host, ""}, strings.SplitN(rest, ";", 2)...)
			}
		}
	} else if parts = strings.SplitN(line, "\t", 4); len(parts) == 3 {
		parts = []string{parts[0], "", parts[1], parts[2]}
	}
	if len(parts) < 3 || parts[0] == "" {
		return k, false
	}
	k.host, k.service = parts[0], parts[1]
	states := serviceStates[:]
	if k.service == "" {
		states = hostStates[:]
	}
	code, err := strconv.Atoi(parts[2])
	if err != nil || code < 0 || code >= len(states) {
		return k, false
	}
	k.state = states[code]
	if len(parts) > 3 {
		k.output, _, _ = strings.Cut(parts[3], "|") // and no performance data
	}
	return k, true
}
