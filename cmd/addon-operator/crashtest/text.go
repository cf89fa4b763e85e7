package crashtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/text"
)

// width is the number of columns at which findings are wrapped between words. Longer words are not broken.
const width = 80

// shownDifferences is the maximum number of printed differences of a finding.
const shownDifferences = 10

// Text returns the report as text.
func (r *Report) Text() string {
	var out strings.Builder
	for _, doer := range r.doers() {
		fmt.Fprintf(&out, "\n%s does not tolerate a crash:\n", doer)
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Doer == doer {
				f.write(&out)
			}
		}
	}
	if len(r.Ignored) > 0 {
		out.WriteString("\nNot compared, because these differ between two undisturbed runs:\n")
		writeList(&out, r.Ignored)
	}
	if len(r.NotReached) > 0 {
		out.WriteString("\nNot tested, because the round did not reach these moments:\n")
		writeList(&out, r.NotReached)
	}
	fmt.Fprintf(&out, "\n%s in %s, of %s.\n", text.Count(r.Rounds-len(r.NotReached), "kill", "kills"),
		(time.Duration(r.Seconds) * time.Second).String(), text.Count(r.Targets, "moment of an undisturbed run", "moments of an undisturbed run"))
	if len(r.Findings) == 0 {
		out.WriteString("All tested rounds had the same results as the undisturbed runs.\n")
	} else {
		fmt.Fprintf(&out, "%s had other results than the undisturbed runs.\n", text.Count(len(r.Findings), "round", "rounds"))
		out.WriteString("A hook runs again after a crash: it must check the state before it acts.\nSee docs/writing-hooks.md#failures\n")
	}
	return out.String()
}

// doers returns the values of the field Doer in the findings, without duplicates, in the order of the
// findings.
func (r *Report) doers() (out []string) {
	for i := range r.Findings {
		if doer := r.Findings[i].Doer; !slices.Contains(out, doer) {
			out = append(out, doer)
		}
	}
	return out
}

// write writes a finding, indented.
func (f *Finding) write(out *strings.Builder) {
	fmt.Fprintf(out, "  killed %s\n", f.Moment)
	for _, failure := range f.Failures {
		writeWrapped(out, fmt.Sprintf("%s failed: %s", failure.Doer, failure.Error))
	}
	for i, d := range f.Differences {
		if i == shownDifferences {
			writeWrapped(out, fmt.Sprintf("and %d more; -o json has all", len(f.Differences)-i))
			break
		}
		writeWrapped(out, d.String())
	}
	if f.Unfinished != "" {
		writeWrapped(out, f.Unfinished)
	}
	writeWrapped(out, "log: "+f.Files+"/log")
}

func writeList(out *strings.Builder, lines []string) {
	for i, line := range lines {
		if i == shownDifferences {
			fmt.Fprintf(out, "  and %d more; -o json has all\n", len(lines)-i)
			return
		}
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// writeWrapped writes an indented paragraph, wrapped at width columns where possible.
func writeWrapped(out *strings.Builder, paragraph string) {
	const indent, more = "    ", "      "
	line := indent
	for i, word := range strings.Fields(paragraph) {
		switch {
		case i == 0:
			line += word
		case len([]rune(line))+1+len([]rune(word)) > width:
			out.WriteString(line + "\n")
			line = more + word
		default:
			line += " " + word
		}
	}
	out.WriteString(line + "\n")
}
