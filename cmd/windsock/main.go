// Command windsock keeps the model of reality for deployments, and comes with what it
// takes to try it: a receiver of callbacks and a demonstration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/willabides/kongplete"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// commands is what can be asked of windsock on the command line. A flag wins over its
// environment variable.
type commands struct {
	Serve       ServeCmd       `cmd:"" help:"Run the service."`
	Listen      ListenCmd      `cmd:"" help:"Receive callbacks and print them."`
	Verify      VerifyCmd      `cmd:"" help:"Check the signature of a callback."`
	Check       CheckCmd       `cmd:"" help:"Look at a deployment or an instance now, as a Nagios plugin."`
	Wait        WaitCmd        `cmd:"" help:"Wait until a deployment or an instance is in a state."`
	Report      ReportCmd      `cmd:"" help:"Report what a script, an agent or another monitor saw, also while windsock is away."`
	Discover    DiscoverCmd    `cmd:"" help:"List what a provider runs, without a service."`
	Deployable  DeployableCmd  `cmd:"" help:"Look at a template of software components."`
	Token       TokenCmd       `cmd:"" help:"Make, list and revoke the tokens of those who call."`
	Agent       AgentCmd       `cmd:"" help:"Run on this instance the components that windsock has for it."`
	Backup      BackupCmd      `cmd:"" help:"Copy the database, also while it is in use."`
	Restore     RestoreCmd     `cmd:"" help:"Make a database of such a copy."`
	Demo        DemoCmd        `cmd:"" help:"Show what windsock does, with three services on this machine."`
	Migrate     MigrateCmd     `cmd:"" help:"Bring the schema of a database up to date, which serve does, too."`
	Copy        CopyCmd        `cmd:"" help:"Copy a database into an empty one, of the same or another kind."`
	Healthcheck HealthcheckCmd `cmd:"" help:"Ask a running service whether it is ready."`
	Completion  CompletionCmd  `cmd:"" help:"Print what has a shell complete these commands; put it where the shell reads it at its start."`
	Version     VersionCmd     `cmd:"" help:"Say which windsock this is."`
}

// stdio is where a command writes.
type stdio struct {
	out, err io.Writer
}

const description = `windsock keeps the model of reality for deployments, and tells registered monitors what changed.

A command ends with 0 when it is done, 1 when it failed, 2 when its command line was not understood, unless its help says
otherwise. A flag with a variable in brackets may be given by that.`

// run does what args ask for until it is done or ctx ends, and returns the exit status:
// 1 when it failed, 2 when it was not understood; a command may have others.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cmds commands
	helped := false
	parser := kong.Must(&cmds,
		kong.Name("windsock"),
		kong.Description(description),
		defaults,
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(stdio{out: stdout, err: stderr}),
	)
	kongplete.Complete(parser, kongplete.WithExitFunc(func(int) { helped = true }))
	if helped {
		return 0
	}
	asked, err := parser.Parse(args)
	switch {
	case helped:
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "windsock: %v; see windsock --help\n", err)
		return 2
	}
	var status exit
	switch err := asked.Run(); {
	case errors.As(err, &status):
		return int(status)
	case err != nil:
		fmt.Fprintf(stderr, "windsock: %v\n", err)
		return 1
	}
	return 0
}

// exit is the status with which a command ends that has said why.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
