package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"windsock"
	"windsock/components"
	"windsock/document"
)

// DeployableCmd is "windsock deployable".
type DeployableCmd struct {
	Check DeployableCheckCmd `cmd:"" help:"Say what is in a template, and what is wrong with it."`
	Graph DeployableGraphCmd `cmd:"" help:"Draw the components of a template."`
}

// DeployableCheckCmd is "windsock deployable check".
type DeployableCheckCmd struct {
	Files []string `arg:"" name:"file" help:"HOT templates, or the shorter form." placeholder:"FILE"`
	JSON  bool     `name:"json" help:"Print an object for each file, as the API has them."`
}

// Help is shown by windsock deployable check --help.
func (*DeployableCheckCmd) Help() string {
	return `What get_file and nested templates name is read beside the template, and nowhere else.
Ends with 0 when nothing is wrong, 1 when a template has errors, 2 when a file cannot be read.`
}

// How a check of templates ends.
const (
	hasErrors  exit = 1
	unreadable exit = 2
)

// Run says of each file what is found in it.
func (c *DeployableCheckCmd) Run(io stdio) error {
	worst := exit(0)
	for _, file := range c.Files {
		template, err := readTemplate(file)
		if err != nil {
			fmt.Fprintf(io.err, "windsock: %v\n", err)
			worst = unreadable
			continue
		}
		s := template.Check()
		if c.JSON {
			data, err := json.Marshal(struct {
				File string `json:"file"`
				windsock.Summary
			}{file, s})
			if err != nil {
				return err
			}
			fmt.Fprintf(io.out, "%s\n", data)
		} else {
			printSummary(io.out, file, s)
		}
		for _, f := range s.Findings {
			if f.Severity == windsock.SeverityError {
				worst = max(worst, hasErrors)
			}
		}
	}
	return worst
}

func printSummary(out io.Writer, file string, s windsock.Summary) {
	fmt.Fprintf(out, "%s: %s, resources %d, edges %d, depth %d\n", file, strings.TrimSpace(s.Format+" "+s.Version), s.Resources, s.Edges, s.Depth)
	var parameters []string
	for _, p := range s.Parameters {
		if p.Required {
			p.Name += " (required)"
		}
		parameters = append(parameters, p.Name)
	}
	for _, list := range []struct {
		what  string
		names []string
	}{{"parameters", parameters}, {"instances", s.Instances}, {"components", s.Components}} {
		if len(list.names) > 0 {
			fmt.Fprintf(out, "  %s: %s\n", list.what, strings.Join(list.names, ", "))
		}
	}
	for _, f := range s.Findings {
		where := file
		if f.File != "" {
			where = filepath.Join(filepath.Dir(file), filepath.FromSlash(f.File))
		}
		if f.Resource != "" {
			f.Resource += ": "
		}
		fmt.Fprintf(out, "%s:%d: %s: %s%s\n", where, f.Line, f.Severity, f.Resource, f.Text)
	}
}

// DeployableGraphCmd is "windsock deployable graph".
type DeployableGraphCmd struct {
	File   string `arg:"" help:"A HOT template, or the shorter form." placeholder:"FILE"`
	Format string `help:"How it is drawn: mermaid or dot." enum:"mermaid,dot" default:"mermaid"`
}

// Run draws the components.
func (c *DeployableGraphCmd) Run(io stdio) error {
	template, err := readTemplate(c.File)
	if err != nil {
		fmt.Fprintf(io.err, "windsock: %v\n", err)
		return unreadable
	}
	if c.Format == "dot" {
		fmt.Fprint(io.out, template.DOT())
	} else {
		fmt.Fprint(io.out, template.Mermaid())
	}
	return nil
}

// readTemplate reads a template, and what it names beside it.
func readTemplate(file string) (*components.Template, error) {
	source, err := document.ReadFile(file, components.MaxSource)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	files := map[string]string{}
	template, err := components.Parse(string(source), files)
	var at *document.Error
	switch {
	case errors.As(err, &at):
		return nil, fmt.Errorf("%s:%d: %s", file, at.Line, at.Detail)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return template, readMentions(dir, template, files)
}

// maxFiles is how much all files together may hold that are sent along with a template.
const maxFiles = 16 << 20

// readMentions adds to files what a template names that stands in dir, and what the
// templates among that name. What is not there is left out: a check says so.
func readMentions(dir *os.Root, template *components.Template, files map[string]string) error {
	total := 0
	queued := map[string]bool{}
	for queue := []*components.Template{template}; len(queue) > 0; queue = queue[1:] {
		names, templates := queue[0].Mentions()
		for _, name := range names {
			if _, ok := files[name]; ok {
				continue
			}
			data, err := readRegular(dir, name)
			if errors.Is(err, errTooLarge) {
				return fmt.Errorf("%s: %w", name, err)
			} else if err != nil {
				continue
			}
			if total += len(data); total > maxFiles {
				return fmt.Errorf("what the template names is larger than %d MiB", maxFiles>>20)
			}
			files[name] = string(data)
		}
		for _, name := range templates {
			if nested, err := template.Nested(name); err == nil && !queued[name] {
				queued[name] = true
				queue = append(queue, nested)
			}
		}
	}
	return nil
}

var errTooLarge = fmt.Errorf("larger than %d MiB", components.MaxSource>>20)

func readRegular(dir *os.Root, name string) ([]byte, error) {
	if info, err := dir.Stat(filepath.FromSlash(name)); err != nil || !info.Mode().IsRegular() {
		return nil, os.ErrNotExist
	}
	f, err := dir.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, components.MaxSource+1))
	if len(data) > components.MaxSource {
		return nil, errTooLarge
	}
	return data, err
}
