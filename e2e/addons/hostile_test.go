package addons_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
	"addon-operator/internal/api"
)

// redis returns the files of the addon redis, by path. The files in changed replace or extend the
// default files.
func redis(changed map[string]string) map[string]string {
	files := map[string]string{
		"meta.yaml":               "{id: X, name: redis, version: 0.0.1, description: d, displayName: Redis}",
		"chart/redis/Chart.yaml":  "{apiVersion: v2, name: redis, version: 1.0.0}",
		"plans/default/meta.yaml": "{id: X-p, name: default, description: d, displayName: Default}",
	}
	maps.Copy(files, changed)
	return files
}

// packed returns an archive of files. The tar entries in the argument more are added at the end.
func packed(files map[string]string, more ...tar.Header) []byte {
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	out := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))})
		_, _ = io.WriteString(out, files[name])
	}
	for _, header := range more {
		_ = out.WriteHeader(&header)
	}
	_ = errors.Join(out.Close(), zipped.Close())
	return archive.Bytes()
}

// bomb returns a small archive whose unpacked files have 1 GiB.
func bomb() []byte {
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	out := tar.NewWriter(zipped)
	zeros := make([]byte, 4<<20)
	for i := range 256 {
		_ = out.WriteHeader(&tar.Header{Name: fmt.Sprintf("chart/redis/files/%d", i), Mode: 0o600, Size: int64(len(zeros))})
		_, _ = out.Write(zeros)
	}
	_ = errors.Join(out.Close(), zipped.Close())
	return archive.Bytes()
}

// yamlBomb returns a YAML text whose aliases expand to 10^10 values.
func yamlBomb() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text.String()
}

const secretValue = `s3cr+t/V&lue "of" a Secret`

// forms returns secretValue, and its encoded forms that can appear in a text.
func forms() []string {
	quoted := strconv.Quote(secretValue)
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + secretValue))
	return []string{
		secretValue, strings.Trim(quoted, `"`), url.QueryEscape(secretValue), url.PathEscape(secretValue),
		base64.StdEncoding.EncodeToString([]byte(secretValue)), base64.RawURLEncoding.EncodeToString([]byte(secretValue)), basic, basic[:20],
	}
}

// hostileServer serves /NAME/index.yaml and /NAME/redis-0.0.1.tgz for each hostile repository.
// hostileServer also serves redirects, and errors whose body repeats the request.
func hostileServer(t *testing.T) string {
	t.Helper()
	const index = "{apiVersion: v1, entries: {redis: [{version: 0.0.1}]}}"
	archives := map[string][]byte{
		"good":      packed(redis(nil)),
		"bomb":      bomb(),
		"traversal": packed(redis(nil), tar.Header{Name: "../../../../tmp/escaped", Mode: 0o600}),
		"absolute":  packed(redis(nil), tar.Header{Name: "/etc/escaped", Mode: 0o600}),
		"symlink":   packed(redis(nil), tar.Header{Name: "chart/redis/values.yaml", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}),
		"hardlink":  packed(redis(nil), tar.Header{Name: "chart/redis/values.yaml", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}),
		"device":    packed(redis(nil), tar.Header{Name: "chart/redis/zero", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}),
		"metabomb":  packed(redis(map[string]string{"meta.yaml": yamlBomb()})),
		"valbomb":   packed(redis(map[string]string{"chart/redis/values.yaml": yamlBomb()})),
		"schema":    packed(redis(map[string]string{"chart/redis/values.schema.json": `{"$ref": "file:///etc/hostname"}`})),
		"longid":    packed(redis(map[string]string{"meta.yaml": "{id: " + strings.Repeat("x", 100<<10) + ", name: redis, version: 0.0.1, description: d, displayName: Redis}"})),
		"notgzip":   []byte("<html>"),
	}
	entries := strings.Builder{}
	for i := range 100_000 {
		fmt.Fprintf(&entries, "- version: 0.0.%d\n", i)
	}
	many := strings.Builder{}
	for i := range 2001 {
		fmt.Fprintf(&many, " - version: 1.0.%d\n", i)
	}
	indexes := map[string]string{
		"hugeindex": "entries:\n redis:\n" + entries.String(),
		"yamlbomb":  yamlBomb() + "entries: {}\n",
		"badnames":  `entries: {"../../escaped": [{version: 0.0.1}], "a/b": [{version: 0.0.1}], redis: [{version: latest}, {version: ""}, {version: 1.2.3.4}, {version: "1.0.0/../../x"}]}`,
		"many":      "entries:\n redis:\n" + many.String(),
		"html":      "<!DOCTYPE html><html></html>",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
		name, isIndex := parts[0], strings.HasSuffix(r.URL.Path, ".yaml")
		noise := make([]byte, 1<<20)
		endless := func() {
			for r.Context().Err() == nil {
				if _, err := w.Write(noise); err != nil {
					return
				}
			}
		}
		switch {
		case name == "file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case name == "loop":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case name == "slow" && isIndex:
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "#")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond)
			}
		case name == "endlessindex" && isIndex, name == "endless" && !isIndex:
			endless()
		case name == "tengig" && !isIndex:
			w.Header().Set("Content-Length", fmt.Sprint(int64(10<<30)))
			endless()
		case name == "echo":
			w.Header().Set("ETag", `"`+url.QueryEscape(secretValue)+`"`)
			http.Error(w, r.URL.String()+" "+r.Header.Get("Authorization")+" "+secretValue, http.StatusForbidden)
		case name == "leak":
			http.Redirect(w, r, "ftp://"+url.UserPassword("user", secretValue).String()+"@h/"+url.PathEscape(secretValue)+"?"+r.URL.RawQuery, http.StatusFound)
		case name == "leakscheme":
			w.Header().Set("Location", "s3cr+t://h/"+url.PathEscape(secretValue))
			w.WriteHeader(http.StatusFound)
		case indexes[name] != "" && isIndex:
			_, _ = io.WriteString(w, indexes[name])
		case isIndex:
			_, _ = io.WriteString(w, index)
		case name == "many":
			version := strings.TrimSuffix(strings.TrimPrefix(parts[1], "redis-"), ".tgz")
			_, _ = w.Write(packed(redis(map[string]string{
				"meta.yaml": fmt.Sprintf("{id: %s, name: redis, version: %s, description: d, displayName: Redis}", version, version),
			})))
		case archives[name] != nil:
			_, _ = w.Write(archives[name])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// TestHostileRepositoriesFailAloneWithinBoundedMemory checks that hostile repositories fail, that other repositories
// are not affected, and that the memory of the operator stays below a limit.
func TestHostileRepositoriesFailAloneWithinBoundedMemory(t *testing.T) {
	c := cluster.Launch(t, t.TempDir())
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	define(t, client)
	environment := environmentOf(t, c)
	repo := hostileServer(t)
	host := strings.TrimPrefix(repo, "http://")
	namespace := strings.Repeat("n", 63)
	for _, name := range []string{namespace, "other"} {
		if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := kube.CoreV1().Secrets(name).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"v": secretValue + "\n"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := environment.Start("ADDON_OPERATOR_ADDONS_DEVELOP_MODE=yes", "ADDON_OPERATOR_ADDONS_RETRY=0", "ADDON_OPERATOR_ADDONS_RESYNC=0s",
		"ADDON_OPERATOR_DEBUG_KUBERNETES_API=yes", "LOG_LEVEL=debug", "GOMEMLIMIT=400MiB")
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			p.Kill()
		}
		if t.Failed() {
			log := environment.Log()
			t.Logf("the end of the operator's log:\n%s", log[max(0, len(log)-4000):])
		}
	})

	// Most configurations have hostile repositories, and one repository that does not exist. The checks below leave out
	// the status of the missing repository.
	type repository = map[string]any
	at := func(path string) repository { return repository{"url": repo + "/" + path} }
	hidden := func(url string) repository {
		return repository{"url": url, "secretRef": map[string]any{"name": "s"}}
	}
	manyURLs := make([]any, 1900) // the URLs and the largest status together exceed the limit of etcd's client, 2 MiB
	for i := range manyURLs {
		manyURLs[i] = at(fmt.Sprintf("none-%d/index.txt?%s", i, strings.Repeat("q", 700)))
	}
	cases := map[string]struct {
		hostile []any
		reason  api.Reason // wanted reason in the status of the hostile repository, or of its only addon
	}{
		"endlessindex":           {[]any{at("endlessindex/index.yaml")}, api.FetchingIndexError},
		"hugeindex":              {[]any{at("hugeindex/index.yaml")}, api.FetchingIndexError},
		"yamlbomb":               {[]any{at("yamlbomb/index.yaml")}, api.FetchingIndexError},
		"html":                   {[]any{at("html/index.yaml")}, api.FetchingIndexError},
		"file":                   {[]any{at("file/index.yaml")}, api.FetchingIndexError},
		"loop":                   {[]any{at("loop/index.yaml")}, api.FetchingIndexError},
		"control":                {[]any{at("good/\x01\x7f\u202e/index.yaml\r\nX: y")}, api.FetchingIndexError},
		"scheme":                 {[]any{repository{"url": "gopher://" + host + "/index.yaml"}}, api.FetchingIndexError},
		"gitoption":              {[]any{repository{"url": "git::--upload-pack=touch /tmp/escaped//index.yaml"}}, api.FetchingIndexError},
		"hgoption":               {[]any{repository{"url": "hg::--config=alias.clone=!touch /tmp/escaped//index.yaml"}}, api.FetchingIndexError},
		"manyurls":               {manyURLs, api.FetchingIndexError},
		"longurl":                {[]any{at("none/" + strings.Repeat("u", 800<<10) + ".txt")}, api.TemplatingURLError},
		"endless":                {[]any{at("endless/index.yaml")}, api.LoadingError},
		"tengig":                 {[]any{at("tengig/index.yaml")}, api.LoadingError},
		"bomb":                   {[]any{at("bomb/index.yaml")}, api.LoadingError},
		"traversal":              {[]any{at("traversal/index.yaml")}, api.LoadingError},
		"absolute":               {[]any{at("absolute/index.yaml")}, api.LoadingError},
		"symlink":                {[]any{at("symlink/index.yaml")}, api.LoadingError},
		"hardlink":               {[]any{at("hardlink/index.yaml")}, api.LoadingError},
		"device":                 {[]any{at("device/index.yaml")}, api.LoadingError},
		"metabomb":               {[]any{at("metabomb/index.yaml")}, api.LoadingError},
		"valbomb":                {[]any{at("valbomb/index.yaml")}, api.LoadingError},
		"schema":                 {[]any{at("schema/index.yaml")}, api.LoadingError},
		"notgzip":                {[]any{at("notgzip/index.yaml")}, api.LoadingError},
		"badnames":               {[]any{at("badnames/index.yaml")}, api.LoadingError},
		"longid":                 {[]any{at("longid/index.yaml")}, api.RegisteringError},
		"many":                   {[]any{at("many/index.yaml")}, api.RegisteringError},
		"echo":                   {[]any{hidden("http://user:{v}@" + host + "/echo/{v}/index.yaml?token={v}")}, api.FetchingIndexError},
		"leak":                   {[]any{hidden("http://user:{v}@" + host + "/leak/index.yaml?token={v}")}, api.FetchingIndexError},
		"leakscheme":             {[]any{hidden(repo + "/leakscheme/index.yaml?token={v}")}, api.FetchingIndexError},
		"leakhost":               {[]any{hidden("http://{v}/index.yaml")}, api.TemplatingURLError},
		"othersecret":            {[]any{repository{"url": repo + "/{v}", "secretRef": map[string]any{"name": "s", "namespace": "other"}}}, api.TemplatingURLError},
		strings.Repeat("l", 250): {[]any{at("notgzip/index.yaml")}, api.LoadingError},
	}
	configurations := client.Resource(api.NamespacedResource).Namespace(namespace)
	create := func(name string, repositories ...any) {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Group + "/" + api.Version, "kind": api.NamespacedKind, "metadata": map[string]any{"name": name},
			"spec": map[string]any{"repositories": repositories},
		}}
		if _, err := configurations.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	create("slow", at("slow/index.yaml"))
	for name, c := range cases {
		if c.reason == api.RegisteringError { // addons are registered only if the configuration has no other problem, such as a missing repository
			create(name, c.hostile...)
			continue
		}
		create(name, append([]any{at("none/index.txt")}, c.hostile...)...)
	}
	create("good", at("good/index.yaml"))
	for name, c := range cases {
		o := settled(t, configurations, name)
		if o.Status.Phase != api.Failed {
			t.Errorf("%s: phase %s", name, o.Status.Phase)
		}
		found := false
		for _, r := range o.Status.Repositories {
			if strings.HasSuffix(r.URL, "/none/index.txt") {
				continue
			}
			found = found || r.Reason == c.reason
			for _, a := range r.Addons {
				found = found || a.Reason == c.reason
			}
		}
		if !found {
			t.Errorf("%.20s: no reason %s in %.2000s", name, c.reason, fmt.Sprint(o.Status.Repositories))
		}
	}
	if o := settled(t, configurations, "good"); o.Status.Phase != api.Ready {
		t.Errorf("good: %+v", o.Status)
	}
	peak, err := p.PeakMemory()
	t.Logf("peak memory: %d MiB, %v", peak>>20, err)
	if peak > 400<<20 {
		t.Errorf("the operator took %d MiB of memory", peak>>20)
	}
	for _, path := range []string{"/tmp/escaped", "/etc/escaped"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}

	// The log, the objects, the responses and the store of the operator must not contain a value of the Secret.
	shown := map[string]string{"log": environment.Log()}
	all, err := configurations.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := all.MarshalJSON()
	shown["configurations"] = string(text)
	events, err := kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shown["events"] = fmt.Sprint(events.Items)
	for _, path := range []string{"/addons", "/metrics", "/ns/" + namespace + "/v2/catalog"} {
		shown[path] = get(t, p.URL()+path)
	}
	for _, args := range [][]string{
		{"addons", "list"},
		{"addons", "why", namespace + "/echo"},
		{"addons", "why", namespace + "/leak"},
		{"workflow", "list"},
		{"workflow", "inspect"},
		{"store", "dump"},
	} {
		output, err := exec.Command(environment.Program, append(args, "--debug-unix-socket", environment.Socket())...).CombinedOutput()
		if err != nil {
			t.Logf("%s: %v: %.300s", args, err, output)
		}
		shown[strings.Join(args, " ")] = string(output)
	}
	stopped = true
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	stored, err := os.ReadFile(environment.Store())
	if err != nil {
		t.Fatal(err)
	}
	shown["store"] = string(stored)
	for where, text := range shown {
		for _, form := range forms() {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s contains %q: %.300q", where, form, text[max(0, i-150):])
			}
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// environmentOf builds the operator, and returns an environment in which the operator runs without modules
// and hooks.
func environmentOf(t *testing.T, c *cluster.Cluster) operator.Environment {
	t.Helper()
	dir, err := os.MkdirTemp("", "addons-") //nolint:usetesting // the path of the debug socket would be too long below t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := operator.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	environment := operator.Environment{
		Program: program, Dir: dir, Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace(t),
		ModulesDir: filepath.Join(dir, "modules"), GlobalHooksDir: filepath.Join(dir, "global-hooks"),
	}
	if err := errors.Join(os.Mkdir(environment.ModulesDir, 0o700), os.Mkdir(environment.GlobalHooksDir, 0o700)); err != nil {
		t.Fatal(err)
	}
	return environment
}

// settled waits until the latest generation of a configuration is processed, and returns the configuration. It waits as
// long as the operator may fetch: a configuration of 2001 addons needs thousands of commits, which a slow disk delays.
func settled(t *testing.T, at dynamic.ResourceInterface, name string) *api.Configuration {
	t.Helper()
	var last *api.Configuration
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		o, err := at.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		text, err := o.MarshalJSON()
		last = new(api.Configuration)
		if err := errors.Join(err, json.Unmarshal(text, last)); err != nil {
			return false, err
		}
		return last.Status.ObservedGeneration == last.Generation && (last.Status.Phase == api.Ready || last.Status.Phase == api.Failed), nil
	}); err != nil {
		t.Errorf("%.20s is not processed: %s, %v", name, last.Status.Phase, err)
	}
	return last
}
