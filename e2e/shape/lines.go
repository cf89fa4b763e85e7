package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// A count has the numbers of lines in Go files, including comments and blank lines. test counts the lines of test
// files, code those of all other files, and codeOutsideE2E those of the other files outside e2e.
type count struct{ code, test, codeOutsideE2E int }

// lines counts the lines of all Go files below the directory of the module, also those of other modules in it. It
// leaves out the directories testdata and vendor, and hidden directories.
func (t *tree) lines() (c count, err error) {
	err = filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != t.dir && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(t.dir, path)
		if err != nil {
			return err
		}
		n := bytes.Count(text, []byte("\n"))
		switch {
		case strings.HasSuffix(path, "_test.go"):
			c.test += n
		case below(filepath.ToSlash(inside), "e2e"):
			c.code += n
		default:
			c.code += n
			c.codeOutsideE2E += n
		}
		return nil
	})
	return c, err
}

// testRatio returns the row for the number of lines in test files for each line in other files.
func testRatio(c count) row {
	r := row{Name: "lines of tests for a line of code", AtLeast: 1, Where: fmt.Sprintf("%d to %d", c.test, c.code)}
	if c.code > 0 {
		r.Value = math.Round(100*float64(c.test)/float64(c.code)) / 100
	}
	return r
}

// codeLines returns the row for the number of lines of code outside e2e. The row has no goal, because fewer lines are
// better only if the program still does the same.
func codeLines(c count) row {
	return row{Name: "lines of code outside e2e", Value: float64(c.codeOutsideE2E)}
}
