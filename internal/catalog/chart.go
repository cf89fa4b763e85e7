package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/ignore"

	"addon-operator/internal/tree"
)

const (
	chartsDir = "chart"
	chartFile = "Chart.yaml"

	// maxSubcharts is the maximum depth to which archives of subcharts can be nested.
	maxSubcharts = 4
)

// loadChart reads the chart of an addon. It sets only the fields of the result that describe the chart.
func loadChart(r *reader) (*Loaded, error) {
	dir, ignored, err := chartDir(r)
	if err != nil {
		return nil, fmt.Errorf(`while discovering the name of the Helm Chart under the "chart" addon directory: %w`, err)
	}
	files, err := chartFiles(r, dir)
	if err == nil {
		err = checkChart(files, &budget{limits: r.limits, left: r.left})
	}
	var ch *chart.Chart
	if err == nil {
		ch, err = loadFiles(files)
	}
	if err != nil {
		return nil, fmt.Errorf("while loading chart: %w", err)
	}
	archive, err := packFiles(chartsDir, files)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(archive)
	about := Chart{Name: ch.Metadata.Name, Version: ch.Metadata.Version, Digest: hex.EncodeToString(digest[:])}
	return &Loaded{Addon: Addon{Chart: about}, Archive: archive, Advice: append(ignored, advise(files, ch)...)}, nil
}

// chartDir returns the path of the directory with the chart, which must be the only directory below chart/. The result
// advice has a warning for each file in chart/ that is not hidden. Files in chart/ are ignored.
func chartDir(r *reader) (dir string, advice []string, err error) {
	infos, err := r.list(chartsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, errors.New(`addon does not contains "chart" directory`)
	}
	if err != nil {
		return "", nil, err
	}
	var names []string
	for _, info := range infos {
		switch {
		case info.IsDir():
			names = append(names, info.Name())
		case !strings.HasPrefix(info.Name(), "."):
			advice = append(advice, fmt.Sprintf("[WARNING] %s: file is ignored; the chart must be a directory", path.Join(chartsDir, info.Name())))
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "", nil, errors.New(`"chart" directory SHOULD contain one Helm Chart folder but it's empty`)
	case 1:
		return path.Join(chartsDir, names[0]), advice, nil
	default:
		return "", nil, fmt.Errorf(`"chart" directory MUST contain only one Helm Chart folder but found multiple directories: [%s]`, strings.Join(names, ", "))
	}
}

// A file is a file of a chart or an addon. Its name is a slash-separated path.
type file struct {
	name string
	data []byte
}

func byName(a, b file) int { return strings.Compare(a.name, b.name) }

// chartFiles returns the files of a chart that its .helmignore does not exclude, sorted by name.
func chartFiles(r *reader, dir string) ([]file, error) {
	rules, err := ignoreRules(r, dir)
	if err != nil {
		return nil, err
	}
	var files []file
	err = r.visit(dir, rules.Ignore, func(name, below string) error {
		if strings.Contains(below, `\`) {
			return fmt.Errorf("%s: name must not contain backslashes", below)
		}
		data, err := r.read(name)
		files = append(files, file{below, data})
		return err
	})
	slices.SortFunc(files, byName)
	return files, err
}

func ignoreRules(r *reader, dir string) (*ignore.Rules, error) {
	rules := ignore.Empty()
	name := path.Join(dir, ignore.HelmIgnore)
	if r.size(name) > maxSchema {
		return nil, fmt.Errorf("%s has more than the limit of %d bytes", ignore.HelmIgnore, maxSchema)
	}
	text, err := r.read(name)
	if err == nil {
		rules, err = ignore.Parse(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rules.AddDefaults()
	return rules, nil
}

// loadFiles makes Helm load a chart from files.
func loadFiles(files []file) (ch *chart.Chart, err error) {
	defer func() {
		if r := recover(); r != nil { // Helm can panic on untrusted text
			err = fmt.Errorf("helm failed to load the chart: %v", r)
		}
	}()
	buffered := make([]*loader.BufferedFile, len(files))
	for i, f := range files {
		buffered[i] = &loader.BufferedFile{Name: f.name, Data: bytes.TrimPrefix(f.data, []byte("\ufeff"))}
	}
	return loader.LoadFiles(buffered)
}

var (
	// parsedFile matches the names of files that Helm parses as YAML when it loads a chart and its subcharts.
	parsedFile = regexp.MustCompile(`^(charts/[^/]+/)*(Chart\.yaml|Chart\.lock|values\.yaml|requirements\.yaml|requirements\.lock)$`)
	// packedSubchart matches the names of files that are archives of subcharts.
	packedSubchart = regexp.MustCompile(`^(charts/[^/]+/)*charts/[^/]+\.tgz$`)
)

// A budget limits the total size of the unpacked archives of subcharts. Helm itself would unpack up to 100 MiB of each
// archive.
type budget struct {
	limits Limits
	left   int64
	depth  int
}

// checkChart returns an error if Helm would need unbounded memory to load the chart, or if a schema of the chart refers
// to another document, which Helm would read when it installs the chart.
func checkChart(files []file, b *budget) error {
	for _, f := range files {
		var err error
		switch {
		case parsedFile.MatchString(f.name):
			err = checkYAML(f.data)
		case valuesSchema.MatchString(f.name):
			err = checkSchema(f.data)
		case packedSubchart.MatchString(f.name):
			err = checkSubchart(f.data, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// checkYAML returns an error if a YAML text is too large, or if it is too large after its aliases are expanded. Helm
// expands aliases without a limit.
func checkYAML(text []byte) error {
	if len(text) > maxYAML {
		return fmt.Errorf("file has %d bytes, more than the limit of %d for YAML", len(text), maxYAML)
	}
	if !bytes.ContainsRune(text, '&') || !bytes.ContainsRune(text, '*') {
		return nil
	}
	_, err := tree.FirstYAML(bytes.TrimPrefix(text, []byte("\ufeff")))
	return err
}

func checkSubchart(archive []byte, b *budget) error {
	if b.depth++; b.depth > maxSubcharts {
		return fmt.Errorf("archives of subcharts are nested more than %d levels deep", maxSubcharts)
	}
	defer func() { b.depth-- }()
	unpacked, err := unpack(bytes.NewReader(archive), Limits{File: b.limits.File, Total: b.left, Entries: b.limits.Entries})
	if err != nil {
		return err
	}
	var files []file
	for name, n := range unpacked.nodes {
		if n.dir {
			continue
		}
		b.left -= int64(len(n.data))
		_, below, _ := strings.Cut(name, "/") // the name without the directory of the subchart
		files = append(files, file{below, n.data})
	}
	slices.SortFunc(files, byName)
	return checkChart(files, b)
}
