package metrics

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var named = regexp.MustCompile(`\baddon_operator_[a-z][a-z_]*[a-z]`)

func TestMetricsThatDocumentsNameAreServed(t *testing.T) {
	t.Parallel()
	var served []string
	for _, m := range New("addon_operator_", nothing).metrics() {
		served = append(served, m.Name)
	}
	found := 0
	look := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range named.FindAllString(string(text), -1) {
			if found++; !slices.Contains(served, strings.TrimSuffix(name, "_bucket")) {
				t.Errorf("%s: no metric is called %s", path, name)
			}
		}
		return err
	}
	for _, name := range []string{"README.md", "docs", "deploy"} {
		if err := filepath.WalkDir(filepath.Join("..", "..", name), look); err != nil {
			t.Fatal(err)
		}
	}
	if found < 50 {
		t.Errorf("only %d metrics were found", found)
	}
}
