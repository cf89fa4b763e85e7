package webui

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// An action is a command that a button executes.
type action struct {
	// path is a pattern of a path below /do. The segment {} of a pattern matches any text without a
	// slash.
	path string
	// reason is set if the command needs a reason.
	reason bool
	// right is the right that a person needs for the action. If the name of the right is {}, it is replaced by the text
	// that matches {} in the path.
	right Right
	// command returns the command for the texts that match {} in the path, and for the form.
	command func(parts []string, form url.Values) []string
}

// actions has all actions. The path of an action below /do is also the path of its route in the
// debug API.
var actions = []action{
	{"reload", false, Right{Verb: "create", Resource: "reloads"}, func([]string, url.Values) []string { return command("reload") }},
	{"module/{}/run", false, Right{Verb: "create", Resource: "modules", Subresource: "run", Name: "{}"}, func(p []string, _ url.Values) []string { return command("module", "run", p[0]) }},
	{"pause/{}", true, Right{Verb: "create", Resource: "pauses"}, func(p []string, f url.Values) []string { return command("pause", p[0], f.Get("name")) }},
	{"resume/{}", false, Right{Verb: "delete", Resource: "pauses"}, func(p []string, f url.Values) []string { return command("resume", p[0], f.Get("name")) }},
	{"task/{}/retry", false, Right{Verb: "create", Resource: "tasks", Subresource: "retry"}, func(p []string, _ url.Values) []string { return command("task", "retry", p[0]) }},
	{"task/{}/skip", true, Right{Verb: "create", Resource: "tasks", Subresource: "skip"}, func(p []string, _ url.Values) []string { return command("task", "skip", p[0]) }},
	{"task/{}/release", false, Right{Verb: "create", Resource: "tasks", Subresource: "release"}, func(p []string, _ url.Values) []string { return command("task", "release", p[0]) }},
	{"task/{}/cancel", false, Right{Verb: "create", Resource: "tasks", Subresource: "cancel"}, func(p []string, _ url.Values) []string { return command("task", "cancel", p[0]) }},
}

// actionAt returns the action for a path below /do, and the texts in the path that match {}. actionAt returns nil if
// there is no such action.
func actionAt(path string) (found *action, parts []string) {
	given := strings.Split(path, "/")
	for i := range actions {
		pattern := strings.Split(actions[i].path, "/")
		parts = nil
		if len(pattern) != len(given) || !slices.EqualFunc(pattern, given, func(want, got string) bool {
			if want == "{}" && got != "" {
				parts = append(parts, got)
				return true
			}
			return want == got
		}) {
			continue
		}
		return &actions[i], parts
	}
	return nil, nil
}

// A done is the model of the view that the page shows after an action.
type done struct {
	frame

	// Said is the output of the command. Back is the path of the view whose button was pressed.
	Said, Back string
}

// mostForm is the maximum size of a form in bytes, and so of the body of a request.
const mostForm = 64 << 10

// nameCookie is the name of the cookie that has the name of the person who used the last action in
// the browser.
const nameCookie = "addon-operator-name"

// act executes the command of an action for the person who sent the form.
func (p *pages) act(w http.ResponseWriter, r *http.Request) {
	if !p.Actions {
		p.fail(w, r, &answerError{http.StatusForbidden, "the actions of this page are disabled; start the operator with --web-actions, or use the command"})
		return
	}
	if err := r.ParseForm(); err != nil {
		p.fail(w, r, badRequest("the form cannot be read: %v", err))
		return
	}
	path := r.PathValue("action")
	a, parts := actionAt(path)
	if a == nil {
		p.fail(w, r, notFound("there is no action %q", path))
		return
	}
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	if a.reason && reason == "" {
		p.fail(w, r, badRequest("%s needs a reason, which is shown to others", strings.Join(a.command(parts, r.PostForm), " ")))
		return
	}
	if err := may(r, a.rightOf(parts)); err != nil {
		p.fail(w, r, err)
		return
	}
	by := strings.TrimSpace(r.PostForm.Get("by"))
	if v := viewerOf(r); v != nil {
		by = v.Name()
	}
	if by == "" {
		p.fail(w, r, badRequest("your name is missing: enter it; it is stored with the action"))
		return
	}
	form := url.Values{"by": {by}, "reason": {reason}, "name": {r.PostForm.Get("name")}}
	said, err := p.api.post(r.Context(), escaped(path), form)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: nameCookie, Value: url.QueryEscape(by), Path: "/", MaxAge: int((30 * 24 * time.Hour).Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil,
	})
	args := a.command(parts, r.PostForm)
	if reason != "" && a.reason {
		args = append(args, "--reason", reason)
	}
	d := &done{frame: p.frame(r, "Done", args), Said: said, Back: backTo(r.PostForm.Get("back"))}
	d.Live = false
	p.render(w, http.StatusOK, "done", d)
}

// escaped returns path with a leading slash, and with each of its segments escaped.
func escaped(path string) string {
	return at(nil, strings.Split(path, "/")...)
}

// backTo returns its argument, which is the path of a view from a form. If the path is empty or could lead to another
// site, backTo returns the path of the overview. A path with a backslash, a tab or a line break could lead to another
// site, because browsers treat a backslash as a slash, and remove tabs and line breaks.
func backTo(back string) string {
	if !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") || strings.Contains(back, `\`) || strings.ContainsFunc(back, unicode.IsControl) {
		return "/"
	}
	return back
}

// requester returns the name of the person who used the last action in this browser; empty if it is not
// known.
func requester(r *http.Request) string {
	c, err := r.Cookie(nameCookie)
	if err != nil {
		return ""
	}
	name, err := url.QueryUnescape(c.Value)
	if err != nil {
		return ""
	}
	return name
}

// A button has the data of the form with which a person starts one action.
type button struct {
	// SignedIn and By have the values of these fields in the [frame]. Back is the path of the view
	// with the button.
	SignedIn bool
	By, Back string

	Path, Label, About, Command string
	// Reason is set if the action needs a reason. Name is the name of the work that the action pauses or
	// resumes; empty for other actions.
	Reason bool
	Name   string
}

// button returns the button for the action with the given path below /do. The argument form must
// have the fields of the form that the command of the action needs.
func (f *frame) button(path, label, about string, form url.Values) button {
	a, parts := actionAt(path)
	args := a.command(parts, form)
	if a.reason {
		args = append(args, "--reason", "TEXT")
	}
	return button{
		SignedIn: f.SignedIn, By: f.By, Back: f.Here, Path: "/do" + escaped(path), Label: label, About: about, Command: f.Shell(args), Reason: a.reason,
		Name: form.Get("name"),
	}
}

// Reload returns the button that requests a converge.
func (f *frame) Reload() button {
	return f.button("reload", "Reload", "Scans the module directories and converges now.", nil)
}

// PauseButton returns the button that pauses or resumes work.
func (f *frame) PauseButton(c pauseControl) button {
	form := url.Values{"name": {c.Name}}
	if c.Paused {
		about := "Starts the work that waits. First ask whether the reason of the pause still holds"
		if c.Reason != "" {
			about += ": " + f.Redacted(c.Reason)
		}
		return f.button("resume/"+c.Kind, "Resume "+c.What(), about+".", form)
	}
	return f.button("pause/"+c.Kind, "Pause "+c.What(), "Keeps work from starting until somebody resumes it. Attempts that run go on to their end.", form)
}

// Buttons returns the buttons of a module.
func (m *module) Buttons() []button {
	about := "Runs the module before all waiting tasks: its beforeHelm hooks, its release, its afterHelm hooks. If the module has not started yet, its onStartup hooks and Synchronization run first."
	if m.Pause.Paused {
		about += " The module is paused: the run waits until the module is resumed."
	}
	return []button{
		m.button("module/"+m.Name+"/run", "Run now", about, nil),
		m.PauseButton(m.Pause),
	}
}

// Buttons returns the buttons of a task. Buttons leaves out actions that have no effect in the state of the task.
func (t *task) Buttons() (out []button) {
	if t.Failing {
		out = append(out, t.button("task/"+t.ID+"/retry", "Retry", "Retries the failed task at once.", nil))
	}
	if t.Running {
		out = append(out, t.button("task/"+t.ID+"/cancel", "Cancel", "Ends the running attempt as a failure: its hook gets SIGTERM, and SIGKILL 5 s later.", nil))
	}
	if t.Quarantined {
		out = append(out, t.button("task/"+t.ID+"/release", "Release", "Runs the task again. The operator crashed each time the task ran.", nil))
	}
	if t.Failing || t.Quarantined {
		out = append(out, t.button("task/"+t.ID+"/skip", "Skip", "Ends the failed or quarantined step as if it had succeeded without any result. The work of the step is not done. If the step runs several hooks, only the failed or quarantined hook is skipped. The run of the task continues with its other steps.", nil))
	}
	return out
}
