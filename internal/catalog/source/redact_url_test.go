package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/internal/catalog/source"
)

// TestURLsInATextAreShownWithoutCredentials checks that users, passwords and queries are removed from URLs, and that
// the rest of the text stays.
func TestURLsInATextAreShownWithoutCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "",
		"no URL: user:secret@host?token=secret": "no URL: user:secret@host?token=secret",
		"get https://user:secret@example.com/a": "get https://example.com/a",
		"git::ssh://git@example.com/repo.git":   "git::ssh://example.com/repo.git",
		`Get "https://example.com/index.yaml?token=secret": EOF`:                           `Get "https://example.com/index.yaml": EOF`,
		"https://a:secret@one.example.com/x?sig=secret and https://b@two.example.com/y":    "https://one.example.com/x and https://two.example.com/y",
		"s3::https://key:secret@s3.example.com/bucket?aws_access_key_secret=secret failed": "s3::https://s3.example.com/bucket failed",
		"https://example.com/index.yaml":                                                   "https://example.com/index.yaml",
	} {
		if got := source.WithoutCredentials(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestFileOfHostKeysIsChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const key = "example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJAyPUeCxvHxJMlxS1Kn4PBqDGDGcm3Dp4kPTSmpBK5K\n"
	for _, valid := range []string{"", write("empty", ""), write("comment", "# keys\n"), write("valid", key)} {
		if err := source.CheckKnownHosts(valid); err != nil {
			t.Errorf("%q: %v", valid, err)
		}
	}
	for _, invalid := range []string{filepath.Join(dir, "missing"), write("no-key", "example.com\n"), write("damaged", strings.Replace(key, "AAAA", "BBBB", 1))} {
		err := source.CheckKnownHosts(invalid)
		if err == nil || !strings.Contains(err.Error(), invalid) || !strings.Contains(err.Error(), "ssh-keyscan") {
			t.Errorf("%s: the error is %v, want one that names the file and the program that writes it", invalid, err)
		}
	}
}
