package source

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog/sourcetest"
)

func inBucket(text string) map[string]string {
	objects := map[string]string{}
	for name, text := range addonFiles(text) {
		objects["prefix/"+name] = text
	}
	delete(objects, "prefix/addons/file-0.0.1")
	objects["prefix/addons/redis-0.0.10/meta.yaml"] = "another addon"
	objects["prefix/addons/odd name+$-1/a b+c.yaml"] = "odd"
	objects["prefix/addons/redis-0.0.1/"] = ""
	return objects
}

func bucketURL(s *sourcetest.S3, query string) string {
	return "s3::" + s.URL + "/" + s.Bucket + "/prefix//addons/index.yaml?aws_access_key_id={id}&aws_access_key_secret={key}" + query
}

func TestAddonsAreFetchedFromABucket(t *testing.T) {
	t.Parallel()
	server := sourcetest.ServeS3(t)
	server.Put(inBucket("first"))
	f := newFetcher(t, Options{}, server.Server)
	secret := secretOf("id", server.AccessKey, "key", server.SecretKey)
	for _, query := range []string{"&region=eu-west-1", ""} { // without a region in the URL, the region that the server reports is used
		r := open(t, f, bucketURL(server, query), secret)
		document, err := r.Index(t.Context(), Validators{})
		if err != nil || !strings.HasSuffix(string(document.Data), "first") {
			t.Fatalf("got %q, %v", document.Data, err)
		}
		for name, want := range addonFiles("first") {
			if file, ok := strings.CutPrefix(name, "addons/redis-0.0.1/"); ok && !strings.Contains(file, "/c") {
				if got := readAddon(t, r, "redis", "0.0.1", file); got != want {
					t.Errorf("%s has %d bytes, want %d", file, len(got), len(want))
				}
			}
		}
		if got := readAddon(t, r, "odd name+$", "1", "a b+c.yaml"); got != "odd" {
			t.Errorf("got %q", got)
		}
		again, err := r.Index(t.Context(), document.Validators)
		if err != nil || !again.NotModified {
			t.Errorf("got %+v, %v", again, err)
		}
		content, err := r.Addon(t.Context(), "redis", "0.0.1", Validators{})
		if err != nil {
			t.Fatal(err)
		}
		content.Close()
		unchanged, err := r.Addon(t.Context(), "redis", "0.0.1", content.Validators)
		if err != nil || !unchanged.NotModified {
			t.Errorf("got %+v, %v", unchanged, err)
		}
		_, err = r.Addon(t.Context(), "missing", "0.0.1", Validators{})
		checkFailure(t, err, api.LoadingError, `directory "prefix/addons/missing-0.0.1" does not exist in the repository`)
	}
}

func TestFailuresOfABucketHaveTheirReasonAndNoSecret(t *testing.T) {
	t.Parallel()
	server := sourcetest.ServeS3(t)
	server.Put(inBucket("x"))
	server.Put(map[string]string{"prefix/addons/large-1/big": strings.Repeat("x", 6<<20)})
	f := newFetcher(t, Options{}, server.Server)
	for name, test := range map[string]struct{ id, key, url, want string }{
		"wrong key":  {server.AccessKey, "another-S3cr3t", bucketURL(server, ""), "bad response code: 403 (SignatureDoesNotMatch)"},
		"wrong id":   {"another-S3cr3t", server.SecretKey, bucketURL(server, ""), "bad response code: 403 (InvalidAccessKeyId)"},
		"no bucket":  {server.AccessKey, server.SecretKey, strings.Replace(bucketURL(server, ""), "/addons/prefix", "/nothing/prefix", 1), "bad response code: 404 (NoSuchBucket)"},
		"no object":  {server.AccessKey, server.SecretKey, strings.Replace(bucketURL(server, ""), "index.yaml", "other.yaml", 1), "bad response code: 404 (NoSuchKey)"},
		"no secrets": {"", "", bucketURL(server, ""), "bad response code: 403 (AccessDenied)"},
	} {
		r := open(t, f, test.url, secretOf("id", test.id, "key", test.key))
		_, err := r.Index(t.Context(), Validators{})
		checkFailure(t, err, api.FetchingIndexError, test.want)
		if name == "wrong key" {
			_, err = r.Addon(t.Context(), "redis", "0.0.1", Validators{})
			checkFailure(t, err, api.FetchingError, test.want)
		}
	}
	r := open(t, f, bucketURL(server, ""), secretOf("id", server.AccessKey, "key", server.SecretKey))
	_, err := r.Addon(t.Context(), "large", "1", Validators{})
	checkFailure(t, err, api.LoadingError, "larger than the limit of 5 MiB")

	address, err := Render("s3::https://host//index.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Open(address)
	checkFailure(t, err, api.FetchingIndexError, "names no bucket")
}

func TestAHostileBucketIsRefused(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(n int) string{
		"endless pages": func(n int) string {
			return fmt.Sprintf("<L><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>%s</L>", n,
				strings.Repeat("<Contents><Key>addons/a-1/x</Key></Contents>", 900))
		},
		"a page that repeats": func(int) string {
			return "<L><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></L>"
		},
		"keys elsewhere": func(int) string { return "<L><Contents><Key>other/x</Key></Contents></L>" },
		"no XML":         func(int) string { return "<L" },
	} {
		requests := 0
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			_, _ = w.Write([]byte(answer(requests)))
		}))
		f := newFetcher(t, Options{}, server)
		_, err := open(t, f, "s3::"+server.URL+"/b//addons/index.yaml", nil).Addon(t.Context(), "a", "1", Validators{})
		if reasonOf(err) == "" || requests > 10 {
			t.Errorf("%s: %v after %d requests", name, err, requests)
		}
		server.Close()
	}
}

func TestHostsOfAWSNameBucketAndRegion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"s3::https://s3.amazonaws.com/b/p//i.yaml":                  "/b p/i.yaml us-east-1",
		"s3::https://s3-eu-west-1.amazonaws.com/b//i.yaml":          "/b i.yaml eu-west-1",
		"s3::https://s3.eu-central-1.amazonaws.com/b//a/i.yaml":     "/b a/i.yaml eu-central-1",
		"s3::https://b.s3.amazonaws.com/p//i.yaml":                  "/ p/i.yaml us-east-1",
		"s3::https://b.s3.us-gov-west-1.amazonaws.com//i.yaml":      "/ i.yaml us-gov-west-1",
		"s3::https://minio.example.com/b/p/q//i.yaml?region=x-y-1z": "/b p/q/i.yaml x-y-1z",
	} {
		l, err := parse(text, false)
		if err != nil {
			t.Fatal(err)
		}
		r, err := (&Fetcher{}).newS3Repository(l)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.server.Path + " " + r.indexAt + " " + r.region; got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestDirectoriesAreReadInDevelopMode(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range addonFiles("x") {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "addons", "packed-1.tgz"), archiveOf(t, map[string]string{"meta.yaml": "packed"}), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, Options{Develop: true})
	r := open(t, f, "file://"+root+"/addons/index.yaml", nil)
	document, err := r.Index(t.Context(), Validators{})
	if err != nil || !strings.HasSuffix(string(document.Data), "x") {
		t.Fatalf("got %q, %v", document.Data, err)
	}
	if again, err := r.Index(t.Context(), document.Validators); err != nil || !again.NotModified {
		t.Errorf("got %+v, %v", again, err)
	}
	if got := readAddon(t, r, "redis", "0.0.1", "chart/redis/Chart.yaml"); got != "name: redis" {
		t.Errorf("got %q", got)
	}
	if got := readAddon(t, r, "packed", "1", "meta.yaml"); got != "packed" {
		t.Errorf("got %q", got)
	}
	_, err = r.Addon(t.Context(), "missing", "1", Validators{})
	checkFailure(t, err, api.LoadingError, `directory "missing-1" does not exist in the repository`)
	link := filepath.Join(root, "addons", "redis-0.0.1", "link")
	for target, name := range map[string]string{"chart": "link/redis/Chart.yaml", "../redis-0.0.1/chart/redis/Chart.yaml": "link"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if got := readAddon(t, r, "redis", "0.0.1", name); got != "name: redis" {
			t.Errorf("a link to %s: got %q", target, got)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".", link); err != nil {
		t.Fatal(err)
	}
	_, err = r.Addon(t.Context(), "redis", "0.0.1", Validators{})
	checkFailure(t, err, api.LoadingError, "link is a link that leads to no file or directory of the repository")
	if err := errors.Join(os.Remove(link), os.Symlink("/etc/passwd", link)); err != nil {
		t.Fatal(err)
	}
	_, err = r.Addon(t.Context(), "redis", "0.0.1", Validators{})
	checkFailure(t, err, api.LoadingError, "redis-0.0.1/link is a link that leads to no file or directory of the repository")
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "addons", "passwd.yaml")); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, f, "file://"+root+"/addons/passwd.yaml", nil).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "is not a regular file")
	_, err = open(t, f, "file://"+root+"/nothing/index.yaml", nil).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "the directory of the repository does not exist")
}
