package webui

import (
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"addon-operator/workflow/inspect"
)

// commandBegins finds commands in prose, and commandEnds what follows one.
var (
	commandBegins = regexp.MustCompile(`(?:^|[ (])((?:kubectl|chmod|helm|chronyc|addon-operator) [a-z+-])`)
	commandEnds   = regexp.MustCompile(`[.,;:)]( |$)|\.$| (says|has|have|names|and|or|in|on|of|reaches|shows|with|again|to|until|also) | \(|[)]|$`)
)

// nouns follow the name of the program where prose is about the program, as in "addon-operator v1".
var nouns = regexp.MustCompile(`^addon-operator (is|has|was|cannot|must|does|v\d)`)

// copyButton copies the code before it. Without JavaScript it is not shown.
const copyButton = ` <button type="button" class="copy" aria-label="Copy the command">Copy</button>`

// Copy returns a button that copies the code before it.
func (*frame) Copy() template.HTML { return copyButton }

// Prose returns text that may quote what a hook printed, without secrets. The commands in it are set as code.
func (f *frame) Prose(text string) template.HTML { return prose(f.Redacted(text), "") }

// ProseToCopy is Prose with a button behind each command that copies it.
func (f *frame) ProseToCopy(text string) template.HTML { return prose(f.Redacted(text), copyButton) }

// breakable lets a browser break a long path behind a slash, and not within a word.
var breakable = strings.NewReplacer("/", "/<wbr>")

// prose returns text with its commands as code, and behind each of them.
func prose(text, behind string) template.HTML {
	var out strings.Builder
	escape := func(text string) string { return breakable.Replace(html.EscapeString(text)) }
	for {
		at := commandBegins.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		begin, rest := at[2], at[3]
		end := rest + commandEnds.FindStringIndex(text[rest:])[0]
		out.WriteString(escape(text[:begin]))
		if command := escape(text[begin:end]); nouns.MatchString(text[begin:]) {
			out.WriteString(command)
		} else {
			out.WriteString("<code>" + command + "</code>" + behind)
		}
		text = text[end:]
	}
	out.WriteString(escape(text))
	return template.HTML(out.String()) //nolint:gosec // each part of it is escaped
}

// An adviceGroup is commands as a view shows them.
type adviceGroup struct {
	// Danger is set if the commands delete something, or leave work undone.
	Danger   bool
	Commands []shownCommand
}

// A shownCommand is a command to copy. Link leads to the view that shows the same, or what the command changes. It is empty if
// that is the open view, or if a command before this one has it.
type shownCommand struct {
	Text, Why string
	Link      viewLink
}

// harmless are the commands that change something and delete nothing.
var harmless = []string{"pause", "resume", "task cancel", "task release", "task retry"}

// Grouped returns the commands of an advice, those that are hard to undo last.
func (f *frame) Grouped(all []inspect.Advice) (groups []adviceGroup) {
	linked := []string{f.Here, ""}
	for _, danger := range []bool{false, true} {
		g := adviceGroup{Danger: danger}
		for i := range all {
			a := &all[i]
			if hardToUndo(a) != danger {
				continue
			}
			c := shownCommand{Text: f.Shell(a.Args), Why: a.Why}
			if link := commandView(a.Args); !slices.Contains(linked, link.URL) {
				c.Link, linked = link, append(linked, link.URL)
			}
			g.Commands = append(g.Commands, c)
		}
		if len(g.Commands) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// hardToUndo reports whether a command does more than a person may expect of it.
func hardToUndo(a *inspect.Advice) bool {
	command := strings.Join(a.Args, " ") + " "
	return a.Why != "" && !a.ChangesNothing() && !slices.ContainsFunc(harmless, func(c string) bool { return strings.HasPrefix(command, c+" ") })
}

// Remedy returns the command of a problem with its effect, nothing if it has none.
func (*frame) Remedy(p inspect.Problem) []inspect.Advice {
	if len(p.Command) == 0 {
		return nil
	}
	a := inspect.Advice{Args: p.Command}
	if p.Effect != "" {
		a.Why = "this " + p.Effect
	}
	return []inspect.Advice{a}
}
