package story

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/screen"
)

// The size of the screen on which stories show the output of commands.
const (
	screenRows    = 24
	screenColumns = 80
)

// mostTyped is the maximum number of commands that a reader may run until the screen shows the cause of a problem.
const mostTyped = 3

// readingCommands are the commands, and groups of commands, that change nothing. As long as the cause of a problem is
// unknown, a reader runs only these.
var readingCommands = []string{
	"diagnose", "global", "logs", "module list", "module patches", "queue", "status", "timeline", "values explain", "why", "workflow",
}

// A reader represents a user on call, who runs commands of the operator and knows only the text on the screen.
type reader struct {
	store string         // value of the flag --store, if the operator does not run; otherwise empty
	typed int            // number of commands "screen" and "follow" since the last "screen", including it
	text  string         // output of the last of these commands
	found *regexp.Regexp // first pattern of the last of these commands; nil if it has none
	all   string         // outputs of all these commands
}

var readerCommands = map[string]command{
	"screen": firstScreen,
	"follow": followAdvice,
	"type":   typeAdvice,
	"shell":  typeInShell,
	"well":   awaitWell,
	"absent": absentFromScreens,
}

// firstScreen implements the command "screen [--store FILE] REGEXP...". It runs the operator's command status until
// the output matches each REGEXP. The output and the shell's prompt must fit on a screen of 24 rows and 80 columns. If
// holdVariable names the story, the story ends here, see [environment.hold].
func firstScreen(w *environment, ts *testscript.TestScript, args []string) error {
	w.reader = &reader{}
	if len(args) > 1 && args[0] == "--store" {
		w.reader.store, args = ts.MkAbs(args[1]), args[2:]
	}
	if err := sees(w, ts, []string{"status"}, args); err != nil {
		return err
	}
	return w.hold()
}

// followAdvice implements the command "follow REGEXP...". It selects a command after "next:" on the last screen: the
// first such command below the match of the screen's first pattern, or the first one on the whole screen if there is
// none below. It runs the selected command until its output matches each REGEXP. The command must change nothing. The
// reader may run at most three commands, including the command that "screen" runs.
func followAdvice(w *environment, ts *testscript.TestScript, args []string) error {
	if w.reader == nil {
		return errors.New(`there is no command "screen" before this command`)
	}
	next := advised(w.reader.belowFound(), "next", anyCommand)
	if next == nil {
		next = advised(w.reader.text, "next", anyCommand)
	}
	if next == nil {
		return fmt.Errorf("the screen has no command after \"next:\"\n%s", w.reader.text)
	}
	if !slices.ContainsFunc(readingCommands, func(c string) bool { return strings.HasPrefix(strings.Join(next, " ")+" ", c+" ") }) {
		return fmt.Errorf("the screen advises %q as the next command, which is not a command that only reads", next)
	}
	return sees(w, ts, next, args)
}

// sees runs a command of the operator until its output matches all patterns. For the match, [flat] brings the output
// into one line. The output must fit on the screen.
func sees(w *environment, ts *testscript.TestScript, command, patterns []string) error {
	r := w.reader
	if r.typed++; r.typed > mostTyped {
		return fmt.Errorf("the reader needs more than %d commands", mostTyped)
	}
	r.found = nil
	var wanted []*regexp.Regexp
	for _, p := range patterns {
		pattern, err := regexp.Compile(p)
		if err != nil {
			return err
		}
		wanted = append(wanted, pattern)
	}
	if len(wanted) > 0 {
		r.found = wanted[0]
	}
	err := wait(func() (err error) {
		if r.text, err = w.show(command); err != nil {
			return err
		}
		for _, pattern := range wanted {
			if !pattern.MatchString(flat(r.text)) {
				return fmt.Errorf("%s does not show %q:\n%s", strings.Join(command, " "), pattern, r.text)
			}
		}
		if n := rowsOf(r.text); n >= screenRows { // the shell's prompt needs one row
			return final{fmt.Errorf("%s takes %d rows, and the screen has %d:\n%s", strings.Join(command, " "), n, screenRows, r.text)}
		}
		return nil
	})
	r.all += r.text
	say(ts, "$ addon-operator "+strings.Join(command, " ")+"\n"+r.text)
	return err
}

// show runs a command of the operator on a terminal of the screen's size, and returns its output. The command must
// exit with code 0, or with code 3, which means that something needs attention.
func (w *environment) show(command []string) (string, error) {
	cmd := typed(w, command)
	text, err := screen.Show(cmd, screenRows, screenColumns)
	const attention = 3
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == attention {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, text)
	}
	return text, err
}

// typed returns the process that runs a command of the operator, with the environment of a user's shell.
func typed(w *environment, command []string) *exec.Cmd {
	cmd := exec.Command(w.program)
	cmd.Args = append([]string{"addon-operator"}, command...)
	if w.reader.store != "" && !slices.Contains(command, "--store") {
		cmd.Args = append(cmd.Args, "--store", w.reader.store)
	}
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "DEBUG_UNIX_SOCKET="+w.path("socket"), "NO_COLOR=1", "TZ=UTC")
	return cmd
}

// advised returns the first command in text that matches the given pattern and stands after the given label, such as
// "next". text has the lines of a screen. An empty label means any label. The result has the arguments of the command,
// without "addon-operator" and without a comment. If no command matches, the result is nil. A terminal wraps a long
// command without adding a line break to the text, so a command is always on one line of the text.
func advised(text, label string, matching *regexp.Regexp) []string {
	for line := range strings.Lines(text) {
		at, command, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found || at != label && label != "" {
			continue
		}
		command, ours := strings.CutPrefix(strings.TrimSpace(command), "addon-operator ")
		if command, _, _ = strings.Cut(command, "  # "); ours && matching.MatchString(command) {
			return strings.Fields(command)
		}
	}
	return nil
}

// anyCommand matches all commands.
var anyCommand = regexp.MustCompile(``)

// belowFound returns the lines of the last screen below the match of its first pattern. If the last command had no
// pattern, belowFound returns all lines.
func (r *reader) belowFound() string {
	if r.found == nil {
		return r.text
	}
	lines := slices.Collect(strings.Lines(r.text))
	for i := range lines {
		if r.found.MatchString(flat(strings.Join(lines[:i+1], ""))) {
			return strings.Join(lines[i+1:], "")
		}
	}
	return ""
}

// isRetried matches the output of the command "task retry" if the operator has already retried the task by itself, or
// if the task has ended.
var isRetried = regexp.MustCompile(`the task is running; wait|no pending task has this id`)

// typeAdvice implements the command "type REGEXP". On the last screen, it finds the first command of the operator that
// matches REGEXP, and runs this command. The placeholder TEXT in the command is replaced by a word. The command must
// succeed, unless it retries a task that the operator has retried by itself meanwhile.
func typeAdvice(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 1 || w.reader == nil {
		return usage("type REGEXP, after a screen")
	}
	pattern, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	command := advised(w.reader.text, "", pattern)
	if command == nil {
		return fmt.Errorf("no command matches on the screen\n%s", w.reader.text)
	}
	for i, arg := range command {
		if arg == "TEXT" {
			command[i] = "incident"
		}
	}
	output, err := typed(w, command).CombinedOutput()
	say(ts, "$ addon-operator "+strings.Join(command, " ")+"\n"+string(output))
	if err != nil && command[0] == "task" && isRetried.Match(output) {
		return nil // the operator has retried the task before the command was run
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// typeInShell implements the command "shell TEXT REGEXP...". It finds the first line on the last screen that contains
// TEXT, and runs the line from TEXT on as a shell command. The shell command must succeed, its output must match each
// REGEXP, and it must fit on the screen.
func typeInShell(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) < 2 || w.reader == nil {
		return usage("shell TEXT REGEXP..., after a screen")
	}
	lines := strings.Split(w.reader.text, "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, args[0]) })
	if at < 0 {
		return fmt.Errorf("no command on the screen has %q\n%s", args[0], w.reader.text)
	}
	command := lines[at][strings.Index(lines[at], args[0]):]
	program, err := cluster.Program()
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	text, err := screen.Show(cmd, screenRows, screenColumns)
	say(ts, "$ "+command+"\n"+text)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, text)
	}
	if n := rowsOf(text); n >= screenRows {
		return fmt.Errorf("%s takes %d rows, and the screen has %d:\n%s", command, n, screenRows, text)
	}
	for _, arg := range args[1:] {
		if pattern, err := regexp.Compile(arg); err != nil || !pattern.MatchString(flat(text)) {
			return errors.Join(err, fmt.Errorf("%s does not show %q:\n%s", command, arg, text))
		}
	}
	return nil
}

// awaitWell implements the command "well". It waits until the operator's command status reports that nothing needs
// attention.
func awaitWell(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return usage("well")
	}
	w.reader = &reader{}
	return wait(func() error {
		text, err := w.show([]string{"status"})
		if err == nil && !strings.HasPrefix(text, "✔ nothing needs attention\n") {
			err = errors.New(text)
		}
		return err
	})
}

// absentFromScreens implements the command "absent REGEXP...". It fails if the output of the last command "screen", or
// of a command "follow" after it, matches one of the patterns. The command "well" discards these outputs.
func absentFromScreens(w *environment, _ *testscript.TestScript, args []string) error {
	if w.reader == nil {
		return errors.New(`there is no command "screen" before this command`)
	}
	for _, arg := range args {
		pattern, err := regexp.Compile(arg)
		if err != nil {
			return err
		}
		if found := pattern.FindString(flat(w.reader.all)); found != "" {
			return fmt.Errorf("a screen shows %q", found)
		}
	}
	return nil
}

// flat returns text in one line, without the vertical lines of tables, and with single blanks between words.
func flat(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "│", "")), " ")
}

// rowsOf returns the number of rows that text takes on the screen, on which long lines are wrapped.
func rowsOf(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		n += max(1, (len([]rune(strings.TrimRight(line, "\n")))+screenColumns-1)/screenColumns)
	}
	return n
}
