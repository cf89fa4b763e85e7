// Package webui serves the web page of the operator. Package webui renders HTML from the answers of the debug API, so
// that the page shows the same data as the commands. The page works without JavaScript. With JavaScript, an open view
// is updated after commits of the store.
package webui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// program is the name of the operator's program in the commands that the page shows.
const program = "addon-operator"

// Options are the options of the web page.
type Options struct {
	// API serves the routes of the debug socket.
	API http.Handler
	// Commits returns a channel that receives a value after commits of the store, until the caller calls
	// the returned function stop.
	Commits func() (wake <-chan struct{}, stop func())
	// Graphs has the graphs in which the page can draw a run.
	Graphs []*graph.Graph
	// Version is the version of the operator. Process identifies the process of the operator: an open
	// view is reloaded when another process answers.
	Version, Process string
	// Actions enables the buttons for actions, such as retry and pause.
	Actions bool
	// Access decides what a person may see and do. If it is nil, everybody who can reach the page may see
	// everything and use all enabled buttons.
	Access Access
}

// A reader makes the models of the views from the answers of the debug API.
type reader struct {
	Options

	api source
}

// pages serves the views.
type pages struct {
	reader
}

//go:embed assets
var assets embed.FS

//go:embed templates
var templates embed.FS

// parseViews returns the templates of the views, each with the common layout. parseViews parses the templates at the
// first call, because this takes several milliseconds, and neither the start of the operator nor a command needs the
// templates.
var parseViews = sync.OnceValue(func() map[string]*template.Template {
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	files, err := fs.Glob(templates, "templates/view_*.html")
	if err != nil {
		panic(err) // the only possible error is an invalid pattern, and the pattern is a constant
	}
	out := map[string]*template.Template{}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(path.Base(file), "view_"), ".html")
		out[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, file))
	}
	return out
})

// functions has the functions that templates can call, in addition to the methods of a frame.
var functions = template.FuncMap{
	"dict": func(pairs ...any) map[string]any {
		d := map[string]any{}
		for i := 0; i+1 < len(pairs); i += 2 {
			d[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
		return d
	},
	"list": func(items ...any) []any { return items },
	"sub":  func(a, b int) int { return a - b },
	"link": func(m model, to, text string) navLink { return navLink{to, text, m.base().Section == to} },
}

// A navLink is a link of the navigation at the top of each view.
type navLink struct {
	URL, Text string
	Current   bool
}

// A view serves the GET requests for one path. template is the name of the template that renders the model of the view.
type view struct {
	// path is a pattern of [http.ServeMux], without the method.
	path, template string
	// section is the path of the navigation link that is highlighted in the view; empty if no link
	// is highlighted.
	section string
	// resource is the resource on which a person needs the right "get" to see the view.
	resource string
	model    func(*reader, *http.Request) (model, error)
}

// A model has the data of one template.
type model interface{ base() *frame }

// views has all views.
var views = []view{
	{"/{$}", "overview", "/", statusResource, (*reader).overview},
	{"/modules", "modules", "/modules", statusResource, (*reader).modules},
	{"/module/{module}", "module", "/modules", statusResource, (*reader).module},
	{"/runs", "runs", "/runs", statusResource, (*reader).runs},
	{"/run/{run}", "run", "/runs", statusResource, (*reader).run},
	{"/queues", "queues", "/queues", statusResource, (*reader).queues},
	{"/queue/{queue...}", "queue", "/queues", statusResource, (*reader).queue},
	{"/task/{task}", "task", "", statusResource, (*reader).task},
	{"/hooks", "hooks", "/hooks", statusResource, (*reader).hooks},
	{"/hook/{hook...}", "hook", "/hooks", statusResource, (*reader).hook},
	{"/values", "values", "/values", valuesResource, (*reader).values},
	{"/values/{module}", "values", "/values", valuesResource, (*reader).values},
	{"/releases", "releases", "/releases", releasesResource, (*reader).releases},
	{"/release/{module}", "release", "/releases", releasesResource, (*reader).release},
	{"/timeline", "timeline", "/timeline", statusResource, (*reader).timeline},
	{"/logs", "logs", "", outputResource, (*reader).logs},
	{"/why", "why", "", statusResource, (*reader).why},
}

// Paths of the page that do not belong to views.
const (
	assetPath  = "/assets/{file}"
	eventsPath = "/events"
	actionPath = "/do/{action...}"
	// Paths to sign in and out. These paths are served only if the page has access control.
	signInPath  = "/sign-in"
	signOutPath = "/sign-out"
)

// Paths returns the paths of the page as patterns of [http.ServeMux], without methods. The paths of views are before
// the other paths.
func Paths() (paths []string) {
	for i := range views {
		paths = append(paths, strings.TrimSuffix(views[i].path, "{$}"))
	}
	return append(paths, eventsPath, actionPath, signInPath, signOutPath, assetPath)
}

// Handler returns a handler of the page. If o.Access is nil, the caller must restrict who can reach the handler.
func Handler(o Options) http.Handler {
	p := &pages{reader: reader{Options: o, api: source{o.API}}}
	mux := http.NewServeMux()
	for _, v := range views {
		mux.HandleFunc("GET "+v.path, func(w http.ResponseWriter, r *http.Request) { p.show(w, r, &v) })
	}
	mux.HandleFunc("GET "+assetPath, serveAsset)
	mux.HandleFunc("GET "+eventsPath, p.events)
	mux.HandleFunc("POST "+actionPath, p.act)
	if p.Access != nil {
		mux.HandleFunc("POST "+signInPath, p.signIn)
		mux.HandleFunc("POST "+signOutPath, p.signOut)
	}
	return http.NewCrossOriginProtection().Handler(secured(p.identified(mux)))
}

// policy is the content security policy of the page. policy allows only files that the page itself serves, and no
// inline scripts or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// secured sets headers that restrict what the page can do in a browser, limits the size of the request, and then calls
// next.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		next.ServeHTTP(w, r)
	})
}

// serveAsset serves an embedded file. A browser may cache the file for a year, because each link to a file has the
// version or the process of the operator in its query.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	http.ServeFileFS(w, r, assets, "assets/"+r.PathValue("file"))
}

// show answers the request r with the view v, or with an error page.
func (p *pages) show(w http.ResponseWriter, r *http.Request, v *view) {
	err := may(r, viewRight(v.resource))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	m, err := v.model(&p.reader, r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	m.base().Section = v.section
	p.render(w, http.StatusOK, v.template, m)
}

// render answers with a status and the template of this name, executed with the model m.
func (p *pages) render(w http.ResponseWriter, status int, name string, m model) {
	var page bytes.Buffer
	if err := parseViews()[name].ExecuteTemplate(&page, "layout", m); err != nil {
		http.Error(w, fmt.Sprintf("the page %s cannot be shown: %v", name, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // an error only means that the browser has closed the connection
}

// failure is the model of an error page.
type failure struct {
	frame

	Status int
	Text   string
}

// fail answers with an error page. The status is that of err, or 500 if err has no status.
func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if e := (*answerError)(nil); errors.As(err, &e) {
		status = e.status
	}
	f := &failure{frame: p.frame(r, http.StatusText(status)), Status: status, Text: err.Error()}
	f.Live = false
	p.render(w, status, "failure", f)
}

// A frame has the data that the models of all views have in common.
type frame struct {
	links

	// Title is the title of the view. Commands has the commands that show the same data in a
	// terminal.
	Title    string
	Commands [][]string
	// Section is the path of the highlighted navigation link; empty if no link is highlighted.
	Section string
	// Live is set if the open view is updated after commits of the store.
	Live bool
	// Actions is set if the buttons for actions are enabled. The field By has the name of the person who is signed in.
	// Without access control, it has the name of the person who used the last action in this browser.
	Actions  bool
	By       string
	SignedIn bool
	Version  string
	Process  string
	// The field Here has the path and the query of the open view.
	Here string
	// The field Now has the time at which the view was made.
	Now time.Time

	layout inspect.Layout
}

func (f *frame) base() *frame { return f }

// frame returns the frame of a view with this title. commands are the commands that show the same
// data.
func (p *reader) frame(r *http.Request, title string, commands ...[]string) frame {
	now := time.Now()
	by, signedIn := requester(r), false
	if v := viewerOf(r); v != nil {
		by, signedIn = v.Name(), true
	}
	return frame{
		Title: title, Commands: commands, Live: true, Actions: p.Actions, By: by, SignedIn: signedIn, Version: p.Version, Process: p.Process,
		Here: r.URL.RequestURI(), Now: now, layout: inspect.Layout{Program: program, Whole: true, Width: inspect.Unlimited, Now: now},
	}
}

// command returns the arguments of a command: the elements of args that are not empty.
func command(args ...string) []string {
	return slices.DeleteFunc(args, func(arg string) bool { return arg == "" })
}

// Shell returns a command line of this program with the given arguments, quoted for a shell.
func (*frame) Shell(args []string) string {
	quoted := []string{program}
	for _, arg := range args {
		if strings.ContainsFunc(arg, unsafeInShell) || arg == "" {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		quoted = append(quoted, arg)
	}
	return strings.Join(quoted, " ")
}

// unsafeInShell reports whether the character r can have a special meaning in a shell.
func unsafeInShell(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,", r)
}

// at escapes the segments and joins them to a path, and appends the query. Empty values of the query are omitted.
func at(query map[string]string, segments ...string) string {
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	out := "/" + strings.Join(segments, "/")
	values := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if query[name] != "" {
			values.Set(name, query[name])
		}
	}
	if len(values) > 0 {
		out += "?" + values.Encode()
	}
	return out
}

// nested returns a path. The argument first is the first segment of the path, and slashes in name separate the other
// segments. If name has a segment that is empty, "." or "..", nested escapes the slashes in name, because otherwise
// [http.ServeMux] and browsers would remove the segment.
func nested(first, name string) string {
	if path.Clean("/"+name) != "/"+name {
		return at(nil, first, name)
	}
	return at(nil, append([]string{first}, strings.Split(name, "/")...)...)
}
