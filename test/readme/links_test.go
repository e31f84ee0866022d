package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var code = regexp.MustCompile("(?ms)^```.*?^```$")

// Whatever a Markdown file of the repository leads to in it is there: files, and headings.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		paths, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name := strings.TrimPrefix(path, "../../")
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, name), ""), -1) {
				links++
				if wrong := follow(t, name, m[1]); wrong != "" {
					t.Errorf("%s leads to %s, %s", name, m[1], wrong)
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links", links)
	}
}

// follow says what is wrong with a link in a file, if it leads elsewhere in the repository.
func follow(t *testing.T, name, link string) string {
	file, anchor, anchored := strings.Cut(link, "#")
	if strings.Contains(file, "://") {
		return ""
	}
	to := name
	if file != "" {
		to = filepath.Join(filepath.Dir(name), file)
	}
	if _, err := os.Stat(filepath.Join("../..", to)); err != nil {
		return "which is not there"
	}
	if anchored && !anchors(read(t, to))[anchor] {
		return "which has no such heading"
	}
	return ""
}

// anchors are those that GitHub gives to the headings of a file.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return all
}
