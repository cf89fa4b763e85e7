package store

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A row is one line of a dump. Fields and parts of keys are renamed as in [dumpNames] and [dumpParts].
type row struct {
	Table string `json:"table"`
	// Key has the parts of the record's key. If the parts do not match the layout of the table, Key
	// has one element: a string of 0x and the whole key in hex.
	Key []any `json:"key"`
	// Value is the record as JSON. If the record is the key of another record, Value is the result
	// of Key.String. If the record is neither JSON nor a key, Value is a string. If Redacted is
	// set, Value is absent, and Bytes is the size of the record in bytes.
	Value    any  `json:"value,omitempty"`
	Redacted bool `json:"redacted,omitempty"`
	Bytes    int  `json:"bytes,omitempty"`
}

// Dump writes the records of the given tables as JSON, one to a line. The tables are in the given order, and the
// records of each table are in the order of their keys. If no tables are given, Dump writes all records, but replaces
// each record that can hold secrets by its size in bytes. The record with the secret for redacted values is always
// replaced in this way.
func Dump(db *DB, w io.Writer, tables ...Table) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	dump := func(tx *Tx, prefix Key) error {
		for k, v := range tx.Range(prefix) {
			if err := lines.Encode(newRow(k, v, slices.Contains(tables, k.Table()))); err != nil {
				return err
			}
		}
		return nil
	}
	err := db.View(func(tx *Tx) error {
		if len(tables) == 0 {
			return dump(tx, nil)
		}
		for _, t := range tables {
			if err := dump(tx, At(t)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("store: dump %s: %w", db.path, err)
	}
	return nil
}

func newRow(k Key, v []byte, asked bool) row {
	r := row{Table: k.Table().String()}
	var err error
	if r.Key, err = k.split(); err != nil {
		r.Key = []any{"0x" + hex.EncodeToString(k)}
	}
	if len(r.Key) > 0 {
		if shown := dumpParts[k.Table()][r.Key[0]]; shown != "" {
			r.Key[0] = shown
		}
	}
	switch {
	case k.Table().secret() && !asked, bytes.Equal(k, redactionKey()):
		r.Redacted, r.Bytes = true, len(v)
	case k.Table() == Events, k.Table() == Unique && !isCancelMark(k):
		r.Value = Key(v).String()
	case json.Valid(v):
		r.Value = json.RawMessage(v)
		if names := dumpNames[k.Table()]; names != nil {
			r.Value = withNames(v, names, "")
		}
	default:
		r.Value = string(v)
	}
	return r
}

// secret reports whether records of t can hold secrets. For a table that this version does not
// know, secret returns true.
func (t Table) secret() bool { return !t.known() || tables[t].secret }
