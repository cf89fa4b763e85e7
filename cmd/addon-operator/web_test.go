package main

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/e2e/cluster"
)

// pictures is the directory to which the tests write the pictures of the docs. If pictures is empty, the tests write no
// pictures.
var pictures = flag.String("pictures", "", "directory for the pictures of the web page that the docs show")

// shown has the names of the views whose pictures are in the docs.
var shown = []string{"overview", "run", "graph", "hook"}

// webSample returns a fixture with several modules. One module fails, and a hook of another module
// runs every second in a queue of its own.
func webSample(t *testing.T) *fixture {
	t.Helper()
	s := newFixture(t)
	config := "monitoring: {replicas: 2, image: {tag: \"1.4\"}, password: hunter2}\n"
	for i, name := range []string{"certs", "ingress", "dns", "storage", "monitoring", "logging", "autoscaler", "policy"} {
		config += name + "Enabled: true\n"
		dir := "modules/0" + string(rune('1'+i)) + "0-" + name
		s.file(dir+"/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata: {a: \"1\"}\n")
		s.file(dir+"/hooks/prepare.sh", hookText(`{"configVersion":"v1","beforeHelm":5}`, "sleep 0.0"+string(rune('1'+i))))
	}
	s.file("modules/values.yaml", config)
	s.file("modules/050-monitoring/hooks/discover.sh", hookText(
		`{"configVersion":"v1","schedule":[{"name":"probe","crontab":"* * * * * *","queue":"probes"}]}`,
		"echo \"12 targets answer\"; echo \"token=abc123\"; sleep 0.$((RANDOM % 3 + 1))"))
	s.file("modules/060-logging/hooks/connect.sh", hookText(`{"configVersion":"v1","beforeHelm":10}`,
		`echo "dial tcp: lookup logs.example.com: no such host, password=hunter2" >&2; exit 1`))
	s.file("global-hooks/settings.sh", hookText(`{"configVersion":"v1","onStartup":1}`, "true"))
	return s
}

// startWeb starts an operator with the web page, and returns the URL of the page. Before it returns, startWeb waits
// until the failing module has failed and the scheduled hook has run several times.
func (s *fixture) startWeb(c *cluster.Cluster, more ...string) string {
	s.t.Helper()
	address := net.JoinHostPort(freeAddress(s.t))
	s.start(c.Kubeconfig(), c.Namespace(s.t), append([]string{"--web-listen-address", address}, more...)...)
	s.until("the module fails", func() bool { return strings.Contains(s.ask("/status.json"), "no such host") })
	s.until("the probes have run", func() bool { return strings.Count(s.ask("/workflow/list.text"), "probe") > 3 })
	return "http://" + address
}

// webViews are the views that the tests open: the name of the picture, the path, and a text that the
// view must show.
var webViews = []struct{ name, path, says string }{
	{"overview", "/", "1 problem needs attention"},
	{"modules", "/modules", "autoscaler"},
	{"module", "/module/logging", "Why is module logging failing?"},
	{"runs", "/runs", "schedule of a module hook"},
	{"run", "/run/1", "5c module-beforehelm"},
	{"queues", "/queues", "logs.example.com: no such host"},
	{"queue", "/queue/main", "module-run"},
	{"hooks", "/hooks", "hooks/discover.sh"},
	{"hook", "/hook/monitoring/hooks/discover.sh", "12 targets answer"},
	{"values", "/values/monitoring?path=image", "/monitoring/image/tag"},
	{"releases", "/releases", "storage"},
	{"release", "/release/dns?diff=true", "no difference"},
	{"timeline", "/timeline", "module-schedule-event"},
	{"logs", "/logs?subject=logging", "no such host"},
	{"why", "/why?subject=main", "What does queue main do?"},
}

// TestWebPageInABrowser opens the page of a running operator in Chromium, and checks the views, their commands and
// their buttons.
func TestWebPageInABrowser(t *testing.T) {
	browser := newBrowser(t)
	c := cluster.Start(t)
	s := webSample(t)
	url := s.startWeb(c, "--web-actions")
	b := newTab(t, browser)
	t.Run("each view is shown and is accessible", func(t *testing.T) { b.showsEachView(t, url) })
	t.Run("each view fits a phone", func(t *testing.T) { b.fitsAPhone(t, url) })
	t.Run("the page follows the preference for dark colours", func(t *testing.T) { b.isDark(t, url) })
	t.Run("the keyboard reaches the content", func(t *testing.T) { b.takesKeys(t, url) })
	t.Run("each view names commands that work", func(t *testing.T) { s.webCommands(t, b, url) })
	t.Run("runs of a binding are one line until a person asks for each", func(t *testing.T) { b.groupsRuns(t, url) })
	t.Run("an open view follows commits", func(t *testing.T) { s.webFollows(t, b, url) })
	t.Run("a button acts with the name of the person", func(t *testing.T) { s.webActs(t, b, url) })
	t.Run("each view is shown without JavaScript", func(t *testing.T) { b.worksWithoutScripts(t, url) })
}

// use makes the methods of b report their errors to t.
func (b *tab) use(t *testing.T) { t.Helper(); b.t = t }

// accessible is a script that returns the defects of a view for people who use a screen reader or
// only the keyboard, such as missing names, labels and headings.
const accessible = `(() => {
	const wrong = [], name = e => (e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent || "").trim();
	const all = selector => [...document.querySelectorAll(selector)];
	if (document.documentElement.lang !== "en") wrong.push("no language");
	if (!document.title) wrong.push("no title");
	for (const one of ["main", "nav[aria-label]", "h1"]) if (all(one).length !== 1) wrong.push(all(one).length + " of " + one);
	let last = 0;
	for (const h of all("h1, h2, h3, h4")) {
		const level = +h.nodeName[1];
		if (level > last + 1) wrong.push("heading skips a level: " + h.textContent);
		if (!h.textContent.trim()) wrong.push("empty heading");
		last = level;
	}
	for (const e of all("a[href], button, summary")) if (!name(e) && !e.querySelector("title")) wrong.push("no name: " + e.outerHTML);
	for (const e of all("input:not([type=hidden]), select")) if (!e.labels?.length) wrong.push("no label: " + e.outerHTML);
	for (const e of all("svg")) if (e.getAttribute("role") !== "img" || !name(e)) wrong.push("drawing without a description");
	for (const e of all("table")) if (!e.querySelector("thead th[scope=col]")) wrong.push("table without headings");
	for (const e of all("[aria-labelledby]")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) wrong.push("label is missing: " + e.getAttribute("aria-labelledby"));
	const ids = all("[id]").map(e => e.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("id twice: " + id);
	for (const e of all("pre, .scroll")) if ((e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight) && e.tabIndex < 0) wrong.push("keyboard cannot scroll");
	return [...new Set(wrong)];
})()`

// contrast is a script that returns the texts in a view that have a contrast of less than 4.5 to 1 to their background.
const contrast = `(() => {
	const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const rgb = colour => { pixel.clearRect(0, 0, 1, 1); pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); return [...pixel.getImageData(0, 0, 1, 1).data]; };
	const light = ([r, g, b]) => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
	const below = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 255]; };
	const wrong = [];
	for (const e of document.querySelectorAll("body *:not(svg *):not(script)")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
		const [a, b] = [light(rgb(getComputedStyle(e).color)), light(below(e))].sort((x, y) => y - x);
		if ((a + .05) / (b + .05) < 4.5) wrong.push(((a + .05) / (b + .05)).toFixed(1) + ": " + e.textContent.trim().slice(0, 40));
	}
	return [...new Set(wrong)];
})()`

// groupsRuns checks that the view of runs shows the runs of the scheduled hook as one group. This
// hook runs every second.
func (b *tab) groupsRuns(t *testing.T, url string) {
	t.Helper()
	b.use(t)
	const rows = `document.querySelectorAll("main tbody tr").length`
	const grouped = `/\b\d+ runs of monitoring\/hooks\/discover.sh probe from \d+, /.test(document.querySelector("main")?.innerText)`
	b.open(url + "/runs")
	b.until("the runs of the probes are one line", grouped)
	few := eval[int](b, rows)
	b.do(chromedp.Click(`a[href*="all=true"]`))
	b.until("each run is shown", fmt.Sprintf(`location.search.includes("all=true") && !%s && %s > %d`, grouped, rows, few))
	b.until("the command is the same", `document.querySelector("main")?.innerText.includes("workflow list -n 20 --all")`)
	b.do(chromedp.Click(`main p a[href^="/runs?limit="]`))
	b.until("the runs are in groups again", `!location.search.includes("all=true") && `+grouped)
}

// showsEachView checks the text of each view, its colors, and that screen readers can read all its
// parts.
func (b *tab) showsEachView(t *testing.T, url string) {
	t.Helper()
	b.use(t)
	b.size(1000, 640)
	defer b.size(1280, 800)
	for _, v := range webViews {
		b.open(url + v.path)
		// If the failing step runs at this moment, the view shows the text after its next update.
		b.until(fmt.Sprintf("%s says %q", v.path, v.says), fmt.Sprintf("document.body.innerText.includes(%q)", v.says))
		if b.says("hunter2") || b.says("abc123") {
			t.Errorf("%s shows a secret:\n%s", v.path, b.text())
		}
		if wrong := eval[[]string](b, accessible); len(wrong) > 0 {
			t.Errorf("%s: %q", v.path, wrong)
		}
		if wrong := eval[[]string](b, contrast); len(wrong) > 0 {
			t.Errorf("%s has little contrast: %q", v.path, wrong)
		}
		if wrong := b.complaints(); len(wrong) > 0 {
			t.Errorf("%s: the browser complains: %q", v.path, wrong)
		}
		b.picture(v.name)
		if eval[bool](b, `(document.getElementById("graph")?.scrollIntoView(), document.getElementById("graph") !== null)`) {
			b.picture("graph")
		}
	}
}

// picture writes a picture of the view if the docs show the view and pictures is set.
func (b *tab) picture(name string) {
	b.t.Helper()
	if *pictures != "" && slices.Contains(shown, name) {
		b.shoot(filepath.Join(*pictures, "web-"+name+".png"))
	}
}

// fitsAPhone checks that no view is wider than a phone.
func (b *tab) fitsAPhone(t *testing.T, url string) {
	t.Helper()
	b.use(t)
	b.size(390, 844)
	defer b.size(1280, 800)
	for _, v := range webViews {
		b.open(url + v.path)
		if width := eval[int](b, `document.documentElement.scrollWidth`); width > 390 {
			t.Errorf("%s is %d pixels wide", v.path, width)
		}
	}
}

// isDark checks the colors of the views in a browser that prefers dark colors.
func (b *tab) isDark(t *testing.T, url string) {
	t.Helper()
	b.use(t)
	b.dark(true)
	defer b.dark(false)
	for _, v := range webViews {
		b.open(url + v.path)
		if !eval[bool](b, `getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).every(part => part < 64)`) {
			t.Errorf("%s has a light background", v.path)
		}
		if wrong := eval[[]string](b, contrast); len(wrong) > 0 {
			t.Errorf("%s has little contrast: %q", v.path, wrong)
		}
	}
}

// takesKeys moves the focus to the content, and opens another view, with the keyboard only.
func (b *tab) takesKeys(t *testing.T, url string) {
	t.Helper()
	b.use(t)
	b.open(url + "/")
	b.do(chromedp.KeyEvent(kb.Tab))
	if focus := eval[string](b, `document.activeElement.textContent`); focus != "Skip to the content" {
		t.Fatalf("the first tab reaches %q", focus)
	}
	if top := eval[float64](b, `document.activeElement.getBoundingClientRect().top`); top < 0 {
		b.until("the link is seen", `document.activeElement.getBoundingClientRect().top >= 0`)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("the content has the focus", `document.activeElement.id === "main"`)
	b.open(url + "/")
	for range 4 { // the focus moves over the skip link, the program name and Overview to Modules
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	if outline := eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
		t.Errorf("the focus is not seen: outline %q", outline)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.untilView("Modules")
}

// webCommands runs the commands that the views name at their bottom, and checks that they succeed.
func (s *fixture) webCommands(t *testing.T, b *tab, url string) {
	t.Helper()
	b.use(t)
	ran := map[string]bool{}
	for _, v := range webViews {
		b.open(url + v.path)
		for _, command := range eval[[]string](b, `[...document.querySelectorAll("main > footer code")].map(e => e.textContent)`) {
			args := strings.Fields(command)
			if ran[command] || args[0] != "addon-operator" {
				continue
			}
			ran[command] = true
			var failed bytes.Buffer
			cmd := process(t, args[1:]...)
			cmd.Env, cmd.Stderr = append(os.Environ(), settings.SocketVariable+"="+s.path("socket")), &failed
			if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != exitAttention {
				t.Errorf("%s names %q: %v: %s", v.path, command, err, failed.String())
			}
		}
	}
	if len(ran) < len(webViews) {
		t.Errorf("the views name only %d commands", len(ran))
	}
}

// webFollows checks that an open view shows a change without a reload, and keeps what a person has
// opened and typed.
func (s *fixture) webFollows(t *testing.T, b *tab, url string) {
	t.Helper()
	b.use(t)
	b.open(url + "/module/dns")
	eval[bool](b, `(window.loadedOnce = true, document.querySelector(".action").open = true, document.querySelector(".action [name=reason]").value = "typed", true)`)
	form := strings.NewReader("name=dns&by=alice&reason=watching")
	answer, err := s.socket().Post("http://unix/pause/module", "application/x-www-form-urlencoded", form)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	b.until("the pause is shown", `document.querySelector(".lead").textContent.includes("paused")`)
	if !eval[bool](b, `window.loadedOnce === true`) {
		t.Error("the view was loaded again")
	}
	if !eval[bool](b, `document.querySelector(".action").open && document.querySelector(".action [name=reason]").value === "typed"`) {
		t.Error("what a person opened or typed is gone")
	}
	if wrong := b.complaints(); len(wrong) > 0 {
		t.Errorf("the browser complains: %q", wrong)
	}
}

// webActs presses the button in the view of the module that webFollows paused, and checks that the
// module is resumed.
func (s *fixture) webActs(t *testing.T, b *tab, url string) {
	t.Helper()
	b.use(t)
	b.open(url + "/module/dns")
	const action = `details[id="do-/do/resume/module"]`
	b.do(
		chromedp.Click(action+" summary"), chromedp.WaitVisible(action+" button"),
		chromedp.SendKeys(action+" [name=by]", "bob"), chromedp.SendKeys(action+" [name=reason]", "seen enough"),
	)
	b.do(chromedp.Click(action + " button"))
	b.until("the answer is shown", `document.body?.innerText.includes("module dns resumed") === true`)
	if timeline := s.ask("/workflow/timeline.text?subject=dns"); !strings.Contains(timeline, "bob: resume module dns: seen enough") {
		t.Errorf("the timeline is\n%s", timeline)
	}
	b.do(chromedp.Click(`main a[href="/module/dns"]`))
	b.untilView("Module dns")
	if name := eval[string](b, `document.querySelector("[name=by]").value`); name != "bob" {
		t.Errorf("the name is not kept: %q", name)
	}
}

// worksWithoutScripts checks the text of each view in a browser that runs no scripts.
func (b *tab) worksWithoutScripts(t *testing.T, url string) {
	t.Helper()
	b.use(t)
	b.scripts(false)
	defer b.scripts(true)
	for _, v := range webViews {
		b.open(url + v.path)
		text, err := chromedp.Run(b.ctx, chromedp.TextContent("main"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, v.says) {
			t.Errorf("%s does not say %q:\n%s", v.path, v.says, text)
		}
	}
}

// TestWebPageIsServedToThisHostOnly requests the page with the name of another host. The operator must reject the
// request. The test also starts an operator whose port for the page is in use. This operator must log a warning, and
// start.
func TestWebPageIsServedToThisHostOnly(t *testing.T) {
	c := cluster.Start(t)
	s := newFixture(t)
	s.warnsOfTakenPort(c.Kubeconfig(), c.Namespace(t), "--web-listen-address")
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(freeAddress(t))
	s.start(c.Kubeconfig(), c.Namespace(t), "--web-listen-address", address)
	foreign := func(to string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Host = "rebound.example.com"
		return http.DefaultClient.Do(r)
	}
	answerOf(t, foreign, "http://"+address+"/", http.StatusForbidden)
	if page := answerOf(t, http.Get, "http://"+address+"/", http.StatusOK); !strings.Contains(page, "addon-operator status") {
		t.Errorf("the page is\n%s", page)
	}
	post := func(to string) (*http.Response, error) {
		return http.PostForm(to, map[string][]string{"by": {"alice"}})
	}
	answerOf(t, post, "http://"+address+"/do/reload", http.StatusForbidden)
}
