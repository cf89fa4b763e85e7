package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// newBrowser starts a headless Chromium, which is stopped when the test ends, and returns the
// context in which tabs are opened. newBrowser skips the test if no Chromium is installed.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium in PATH: install the package chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	allocator, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() { stop(); cancel() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx
}

// A tab is a tab of the headless browser. A tab records the errors and warnings that the browser reports.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp stores the browser tab in the context

	mu     sync.Mutex
	errors []string // errors of scripts and requests, violations of the content security policy, and warnings
}

// newTab opens a tab, which is closed when the test ends.
func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // the first call with ctx opens the tab; canceling ctx closes it
		t.Fatal(err)
	}
	b.size(1280, 800)
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.complain("script: " + e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				b.complain(string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, text)
}

// complaints returns the errors and warnings that the browser has reported since the last call.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.errors
	b.errors = nil
	return found
}

// actionTimeout is the time limit for one call of do, eval or until. A call usually takes much less
// time.
const actionTimeout = 90 * time.Second

// do carries out actions. The test fails if the actions take longer than actionTimeout.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, actionTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// size sets the width and height of the view, in pixels.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	}); err != nil {
		b.t.Fatal(err)
	}
}

// dark makes the browser prefer dark colors if its argument is true, and light colors otherwise.
func (b *tab) dark(dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// scripts allows or forbids the browser to run the scripts of views.
func (b *tab) scripts(allowed bool) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !allowed}); err != nil {
		b.t.Fatal(err)
	}
}

// open opens a view and waits until it is loaded.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// eval runs a script in the view, and returns the value of the script.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	value, err := tryEval[T](b, script)
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return value
}

func tryEval[T any](b *tab, script string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, actionTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script))
}

// lastRequests is a script that returns the address of the view, its age in milliseconds, its focused element, and its
// last requests.
const lastRequests = `JSON.stringify([location.href, performance.now(), document.activeElement?.outerHTML.slice(0, 100),
	performance.getEntriesByType("resource").slice(-5).map(r => [r.name, r.startTime, r.responseEnd, r.responseStatus])])`

// until runs a script repeatedly until it returns true. If a navigation ends the script, the script runs again in the
// next view.
func (b *tab) until(what, script string) {
	b.t.Helper()
	for deadline := time.Now().Add(actionTimeout); ; time.Sleep(20 * time.Millisecond) {
		holds, err := tryEval[bool](b, script)
		if err != nil && !strings.Contains(err.Error(), "Inspected target navigated") {
			b.t.Fatalf("%s: %v", script, err)
		}
		if holds {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("timed out waiting until %s; the address and the last requests: %s; the view:\n%s", what, eval[string](b, lastRequests), b.text())
		}
	}
}

// untilView waits until the tab has completely loaded a view whose title begins with the argument title.
func (b *tab) untilView(title string) {
	b.t.Helper()
	b.until("the view "+title+" is shown", fmt.Sprintf("document.readyState === \"complete\" && document.title.startsWith(%q)", title))
}

// text returns the text of the view.
func (b *tab) text() string {
	b.t.Helper()
	return eval[string](b, `document.body.innerText`)
}

// says reports whether the view contains text.
func (b *tab) says(text string) bool { b.t.Helper(); return strings.Contains(b.text(), text) }

// shoot writes a picture of the view to a file.
func (b *tab) shoot(file string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, picture, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
