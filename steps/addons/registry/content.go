package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"addon-operator/internal/catalog"
	"addon-operator/store"
)

// contentFormat is part of the name of each content. It must be incremented with each change of [catalog.Load] that
// changes the result for the same files.
const contentFormat = "2"

// ContentName returns the name of the content that is parsed from the archive or directory with this digest.
func ContentName(digest string) string { return contentFormat + "-" + digest }

// A Content is the result of parsing an archive or a directory: an addon, or an error.
type Content struct {
	Addon *catalog.Addon `json:"addon,omitempty"`
	// Error is the reason why the addon could not be loaded.
	Error string `json:"error,omitempty"`
	// Advice has the messages of helm lint about the chart.
	Advice []string `json:"advice,omitempty"`
}

// A Parsed is a parsed content that [Put] must store.
type Parsed struct {
	// Name is the name of the content, a result of [ContentName].
	Name string
	// Loaded is nil if the addon could not be loaded. In this case, Err is the reason.
	Loaded *catalog.Loaded
	Err    error
}

// ErrNotHeld means that the holder for which contents were being stored was dropped.
var ErrNotHeld = errors.New("the holder of the contents was dropped")

// Hold makes h a holder of a content, if the content is in the store. The result known reports whether the content is
// in the store.
func Hold(tx *store.Tx, h store.Holder, content string) (known bool, err error) {
	c, ok, err := store.Load[store.Content](tx, store.ContentKey(content))
	if err != nil || !ok || !c.Complete {
		return false, err
	}
	return true, refer(tx, h, content, c)
}

// refer adds h to the holders of a content.
func refer(tx *store.Tx, h store.Holder, content string, c store.Content) error {
	if tx.Get(store.HolderKey(h, false)) == nil {
		return fmt.Errorf("hold content %s: %w", content, ErrNotHeld)
	}
	k := store.HoldKey(h, content)
	if tx.Get(k) != nil {
		return nil
	}
	c.Refs++
	return errors.Join(store.Save(tx, k, true), store.Save(tx, store.ContentKey(content), c))
}

// HoldAs makes a module a holder of a content, and releases all other contents that the module holds. If content is
// empty, it releases all contents. If the result more is true, the budget of tx was too small to release all these
// contents, and another call releases the remaining ones.
func HoldAs(tx *store.Tx, module, content string) (more bool, err error) {
	h := store.ModuleHolder(module)
	if content != "" {
		if err := store.Save(tx, store.HolderKey(h, false), true); err != nil {
			return false, err
		}
		known, err := Hold(tx, h, content)
		if err == nil && !known {
			err = fmt.Errorf("hold content %s for module %s: it is not stored", content, module)
		}
		if err != nil {
			return false, err
		}
	}
	for k := range tx.Range(store.HoldsOf(h)) {
		held, err := heldContent(k)
		if err != nil {
			return false, err
		}
		if held == content {
			continue
		}
		if more, err := release(tx, k, held); err != nil || more {
			return more, err
		}
	}
	if content == "" {
		tx.Delete(store.HolderKey(h, false))
	}
	return false, nil
}

// Put stores contents and makes h a holder of them. If the contents are too large for one transaction, it uses several.
// It does not write contents that are already stored. If h was dropped, the error wraps [ErrNotHeld].
func Put(ctx context.Context, db *store.DB, h store.Holder, contents ...Parsed) error {
	writers := make([]*writer, 0, len(contents))
	for _, c := range contents {
		w, err := newWriter(h, c)
		if err != nil {
			return err
		}
		writers = append(writers, w)
	}
	for len(writers) > 0 {
		done := 0
		before := make([]progress, len(writers))
		for i, w := range writers {
			before[i] = w.progress
		}
		if err := db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			done = 0
			for i, w := range writers {
				w.progress = before[i] // because the store may call this function more than once
			}
			for _, w := range writers {
				more, err := w.write(tx)
				if err != nil || more {
					return err
				}
				done++
				if tx.Spent() {
					return nil
				}
			}
			return nil
		}); err != nil {
			return err
		}
		writers = writers[done:]
	}
	return nil
}

// progress has the numbers of chunks that are already written: chunks of the chart, and chunks of the body.
type progress struct{ chart, body int }

// A writer stores one content, in one or more transactions.
type writer struct {
	holder store.Holder
	name   string
	chart  string // digest of the chart; empty if the content has no chart
	chunks []byte // chunks of the chart
	body   []byte // the Content as JSON
	progress
}

func newWriter(h store.Holder, p Parsed) (*writer, error) {
	w := &writer{holder: h, name: p.Name}
	c := Content{}
	switch {
	case p.Err != nil:
		c.Error = p.Err.Error()
	case p.Loaded != nil:
		c.Addon, c.Advice = &p.Loaded.Addon, p.Loaded.Advice
		w.chart, w.chunks = p.Loaded.Addon.Chart.Digest, p.Loaded.Archive
	}
	var err error
	if w.body, err = json.Marshal(c); err != nil {
		return nil, fmt.Errorf("store content %s: %w", p.Name, err)
	}
	return w, nil
}

// write stores as much of the content as the budget of tx allows. It reports whether a part of the content remains to
// be written.
func (w *writer) write(tx *store.Tx) (more bool, err error) {
	c, known, err := store.Load[store.Content](tx, store.ContentKey(w.name))
	if err != nil {
		return false, err
	}
	if c.Complete {
		return false, refer(tx, w.holder, w.name, c)
	}
	if tx.Get(store.HoldKey(w.holder, w.name)) == nil {
		w.progress = progress{} // the chunks written before were deleted together with the reference
	}
	chart, err := w.referToChart(tx, known && c.Chart == w.chart)
	if err != nil {
		return false, err
	}
	c.Chart, c.Size = w.chart, len(w.body)
	if err := refer(tx, w.holder, w.name, c); err != nil {
		return false, err
	}
	if w.chart != "" && !chart.Complete {
		if w.progress.chart, more = writeChunks(tx, store.ChartChunks(w.chart), w.chunks, w.progress.chart); more {
			return true, nil
		}
		chart.Complete = true
		if err := store.Save(tx, store.ChartKey(w.chart), chart); err != nil {
			return false, err
		}
	}
	if w.progress.body, more = writeChunks(tx, store.ContentChunks(w.name), w.body, w.progress.body); more {
		return true, nil
	}
	c, _, err = store.Load[store.Content](tx, store.ContentKey(w.name))
	c.Complete = true
	return false, errors.Join(err, store.Save(tx, store.ContentKey(w.name), c))
}

// referToChart adds 1 to the reference count of the chart of a new content. If the argument counted is true, the
// count already includes the content, and referToChart only reads the chart.
func (w *writer) referToChart(tx *store.Tx, counted bool) (store.Chart, error) {
	if w.chart == "" {
		return store.Chart{}, nil
	}
	chart, _, err := store.Load[store.Chart](tx, store.ChartKey(w.chart))
	if err != nil || counted {
		return chart, err
	}
	chart.Refs++
	chart.Size = len(w.chunks)
	return chart, store.Save(tx, store.ChartKey(w.chart), chart)
}

// writeChunks writes the chunks of data, starting at chunk next, until the budget of tx is spent. It returns the
// number of the next chunk, and whether chunks remain.
func writeChunks(tx *store.Tx, prefix store.Key, data []byte, next int) (int, bool) {
	for {
		more := store.SaveChunk(tx, prefix, data, next)
		next++
		if !more || tx.Spent() {
			return next, more
		}
	}
}

// LoadContent returns a content, and whether it is in the store.
func LoadContent(tx *store.Tx, content string) (c Content, ok bool, err error) {
	header, ok, err := store.Load[store.Content](tx, store.ContentKey(content))
	if err != nil || !ok || !header.Complete {
		return c, false, err
	}
	body, err := store.LoadChunks(tx, store.ContentChunks(content), header.Size)
	if err != nil {
		return c, false, err
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, false, fmt.Errorf("read content %s: %w", content, err)
	}
	return c, true, nil
}

// LoadChart returns the archive of the chart with this digest, and whether the whole chart is in the store.
func LoadChart(tx *store.Tx, digest string) (archive []byte, ok bool, err error) {
	chart, ok, err := store.Load[store.Chart](tx, store.ChartKey(digest))
	if err != nil || !ok || !chart.Complete {
		return nil, false, err
	}
	archive, err = store.LoadChunks(tx, store.ChartChunks(digest), chart.Size)
	return archive, err == nil, err
}
