package main

import (
	"fmt"
	"os"
)

// CompletionCmd is "windsock completion". A shell that was told so asks the program itself
// what may come next, by the environment variable COMP_LINE, as bash's complete -C does.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completions are what the shells are told; %s is the program.
var completions = map[string]string{
	"bash": "complete -C %[1]s windsock\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -o nospace -C %[1]s windsock\n",
	"fish": `function __complete_windsock
  set -lx COMP_LINE (commandline -cp)
  test -z (commandline -ct); and set COMP_LINE "$COMP_LINE "
  %[1]s
end
complete -f -c windsock -a "(__complete_windsock)"
`,
}

// Run prints it.
func (c *CompletionCmd) Run(io stdio) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.out, completions[c.Shell], program)
	return err
}
