package helm_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/helm"
)

// tally counts GET requests for namespaced objects, including the release records.
type tally struct {
	mu   sync.Mutex
	gets map[string]int // by path and query
}

func (c *tally) count(r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/namespaces/") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gets == nil {
		c.gets = map[string]int{}
	}
	c.gets[r.URL.RequestURI()]++
}

// take returns the counts since the last call of take.
func (c *tally) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	gets := c.gets
	c.gets = nil
	return gets
}

func TestAnActionReadsEachObjectAndTheHistoryOnce(t *testing.T) {
	t.Parallel()
	var c tally
	k := start(t, each(c.count))
	k.KeepReads(time.Hour)
	r := small(t, "web")
	for _, step := range []struct {
		name    string
		release helm.Release
	}{
		{"install", r},
		{"upgrade", with(r, "size", "1")},
		{"upgrade again", with(r, "size", "2")},
	} {
		m := k.render(t, step.release)
		c.take()
		if _, err := k.Upgrade(t.Context(), step.release, m); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		gets := c.take()
		for uri, n := range gets {
			if n > 1 {
				t.Errorf("%s: %d requests for %s, want 1", step.name, n, uri)
			}
		}
		if len(gets) < len(m.Objects) {
			t.Errorf("%s: %d reads for %d objects: the test counts nothing", step.name, len(gets), len(m.Objects))
		}
	}
}

func TestAnUpgradeReadsObjectsWhileItReadsTheHistory(t *testing.T) {
	t.Parallel()
	together := newMeeting(2)
	armed := false
	k := start(t, each(func(r *http.Request) {
		if armed && r.Method == http.MethodGet && (strings.HasSuffix(r.URL.Path, "/secrets") || strings.HasSuffix(r.URL.Path, "/configmaps/web")) {
			if !together.join() {
				t.Errorf("%s is requested alone", r.URL.Path)
			}
		}
	}))
	r := module(t, "web", files{"Chart.yaml": chartYAML, "templates/settings.yaml": configMap("web")})
	m := k.render(t, r)
	armed = true
	if _, err := k.Upgrade(t.Context(), r, m); err != nil {
		t.Error(err)
	}
}

func TestAnUpgradePrevailsOverAChangeMadeMeanwhile(t *testing.T) {
	t.Parallel()
	var once sync.Once
	var k fixture
	// Change the ConfigMap with another client after the upgrade has read it.
	k = start(t, requests(http.MethodPost, "/secrets", 2, func() {
		once.Do(func() {
			m, ok := k.configMap(t, "settings")
			if !ok {
				t.Error("the ConfigMap is absent")
				return
			}
			m.Data["size"] = "changed"
			if _, err := k.kube.CoreV1().ConfigMaps(k.namespace).Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}))
	r := module(t, "web", files{"Chart.yaml": chartYAML, "templates/settings.yaml": configMap("settings"), "templates/more.yaml": configMap("more")})
	k.apply(t, with(r, "size", "1"))
	k.apply(t, with(r, "size", "2"))
	if m, _ := k.configMap(t, "settings"); m.Data["size"] != "2" {
		t.Errorf("size is %q, want that of the chart, 2", m.Data["size"])
	}
}
