package store

import (
	"errors"
	"fmt"
)

// checkAddons reports errors in the records of addons configurations and registered addons: addons
// that their owners do not list, names that do not match ids, and failed configurations that own
// addons. It also reports wrong reference counts, missing chunks, and chunks without a record.
func checkAddons(tx *Tx) error {
	c := addonsCheck{tx: tx, rounds: map[ID]bool{}, offered: map[string]string{}, refs: map[string]int{}, charts: map[string]int{}, chunks: map[string]int{}}
	c.configurations()
	c.results()
	c.addons()
	c.names()
	c.holds()
	c.contents()
	c.chartRecords()
	c.stray()
	return errors.Join(c.errs...)
}

type addonsCheck struct {
	tx      *Tx
	rounds  map[ID]bool       // all rounds to which configurations refer
	offered map[string]string // name of the configuration that offers each addon, by the key of the addon
	refs    map[string]int    // number of holders of each content
	charts  map[string]int    // number of contents with each chart
	chunks  map[string]int    // number of bytes of data expected in the chunks under each prefix
	errs    []error
}

func (c *addonsCheck) bad(format string, args ...any) {
	if len(c.errs) < maxFindings {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// because returns the text of err after a colon, for the end of a finding; empty if err is nil.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// configurations collects the addons in the registered rounds of all configurations. It reports configurations that
// refer to a round that is not live, or that does not match their phase.
func (c *addonsCheck) configurations() {
	for k := range c.tx.Range(At(Configurations)) {
		namespace, name, err := ParseConfigurationKey(k)
		conf, _, err2 := Load[Configuration](c.tx, k)
		if err := errors.Join(err, err2); err != nil {
			c.bad("%v", err)
			continue
		}
		for _, round := range []ID{conf.Round, conf.Registered, conf.Earlier} {
			if !round.IsZero() && c.tx.Get(HolderKey(RoundHolder(round), false)) == nil {
				c.bad("configuration %s refers to round %s, which is not live", k, round)
			}
		}
		c.rounds[conf.Round], c.rounds[conf.Earlier] = true, true
		if !conf.Earlier.IsZero() && conf.Phase != PhasePending {
			c.bad("configuration %s is %s and keeps the earlier round %s", k, conf.Phase, conf.Earlier)
		}
		if conf.Registered.IsZero() {
			continue
		}
		c.rounds[conf.Registered] = true
		if conf.Phase == PhaseFailed || conf.Phase == PhaseReady && conf.Registered != conf.Round {
			c.bad("configuration %s is %s and owns the addons of round %s, its latest is %s", k, conf.Phase, conf.Registered, conf.Round)
		}
		for r, err := range records[RepositoryResult](c.tx, ResultsOf(conf.Registered)) {
			if err != nil {
				c.bad("%v", err)
			}
			for _, a := range r.Addons {
				c.offered[string(AddonKey(namespace, a.ID))] = name
			}
		}
	}
}

// The method results reports results of rounds that belong to no configuration. It also reports contents that a
// result names, but that the round of the result does not hold.
func (c *addonsCheck) results() {
	for k := range c.tx.Range(At(Rounds)) {
		p, err := k.Parts()
		round := ID{Epoch: p.Uint(), N: p.Uint()}
		result, _, err2 := Load[RepositoryResult](c.tx, k)
		if err := errors.Join(err, err2); err != nil {
			c.bad("%v", err)
			continue
		}
		holder := RoundHolder(round)
		if c.tx.Get(HolderKey(holder, true)) != nil {
			continue
		}
		if !c.rounds[round] {
			c.bad("%s belongs to no configuration", k)
		}
		for _, a := range result.Addons {
			if a.Content != "" && c.tx.Get(HoldKey(holder, a.Content)) == nil {
				c.bad("%s names content %s, which its round does not hold", k, a.Content)
			}
		}
	}
}

// addons compares the registered addons with the addons that the configurations offer.
func (c *addonsCheck) addons() {
	for k := range c.tx.Range(At(Addons)) {
		a, _, err := Load[RegisteredAddon](c.tx, k)
		if err != nil {
			c.bad("%v", err)
			continue
		}
		namespace, id, err := ParseAddonKey(k)
		if owner, ok := c.offered[string(k)]; err != nil || !ok || owner != a.Configuration {
			c.bad("%s belongs to configuration %q, which does not list it", k, a.Configuration)
		}
		delete(c.offered, string(k))
		named, _, err := Load[string](c.tx, AddonNameKey(namespace, a.Name, a.Normal))
		if err != nil || named != id {
			c.bad("the name and version of %s lead to %q%s", k, named, because(err))
		}
		if content, ok, err := Load[Content](c.tx, ContentKey(a.Content)); err != nil || !ok || !content.Complete {
			c.bad("the content %s of %s is missing or not complete%s", a.Content, k, because(err))
		}
	}
	for k, owner := range c.offered {
		c.bad("configuration %q lists %s, which is not registered", owner, Key(k))
	}
}

// The method names reports records in table AddonNames that do not lead to a registered addon with that name.
func (c *addonsCheck) names() {
	for k := range c.tx.Range(At(AddonNames)) {
		p, err := k.Parts()
		namespace, name, normal := p.Str(), p.Str(), p.Str()
		id, _, err2 := Load[string](c.tx, k)
		a, ok, err3 := Load[RegisteredAddon](c.tx, AddonKey(namespace, id))
		if err := errors.Join(err, err2, err3); err != nil || !ok || a.Name != name || a.Normal != normal {
			c.bad("%s leads to addon %q, which is not registered under this name and version%s", k, id, because(err))
		}
	}
}

// holds counts the references to each content. It reports references from holders that do not
// exist.
func (c *addonsCheck) holds() {
	for k := range c.tx.Range(At(Holds)) {
		p, err := k.Parts()
		holder, content := Holder(p.Str()), p.Str()
		if err = errors.Join(err, p.Err()); err != nil {
			c.bad("%s: %v", k, err)
		}
		if c.tx.Get(HolderKey(holder, false)) == nil && c.tx.Get(HolderKey(holder, true)) == nil {
			c.bad("%s is a reference of a holder that does not exist", k)
		}
		c.refs[content]++
	}
}

func (c *addonsCheck) contents() {
	for k := range c.tx.Range(At(Contents)) {
		content, _, err := Load[Content](c.tx, k)
		p, err2 := k.Parts()
		name := p.Str()
		if err := errors.Join(err, err2); err != nil {
			c.bad("%v", err)
			continue
		}
		if content.Refs != c.refs[name] || content.Refs == 0 {
			c.bad("%s counts %d holders, has %d", k, content.Refs, c.refs[name])
		}
		delete(c.refs, name)
		if content.Chart != "" {
			c.charts[content.Chart]++
		}
		c.chunks[string(ContentChunks(name))] = unknownSize
		if !content.Complete {
			continue
		}
		c.chunks[string(ContentChunks(name))] = content.Size
		if chart, ok, err := Load[Chart](c.tx, ChartKey(content.Chart)); content.Chart != "" && (err != nil || !ok || !chart.Complete) {
			c.bad("%s is complete, its chart %s is not%s", k, content.Chart, because(err))
		}
	}
	for content := range c.refs {
		c.bad("content %s is held and does not exist", content)
	}
}

func (c *addonsCheck) chartRecords() {
	for k := range c.tx.Range(At(Charts)) {
		chart, _, err := Load[Chart](c.tx, k)
		p, err2 := k.Parts()
		digest := p.Str()
		if err := errors.Join(err, err2); err != nil {
			c.bad("%v", err)
			continue
		}
		if chart.Refs != c.charts[digest] || chart.Refs == 0 {
			c.bad("%s counts %d contents, has %d", k, chart.Refs, c.charts[digest])
		}
		delete(c.charts, digest)
		c.chunks[string(ChartChunks(digest))] = unknownSize
		if chart.Complete {
			c.chunks[string(ChartChunks(digest))] = chart.Size
		}
	}
	for digest := range c.charts {
		c.bad("chart %s is used and does not exist", digest)
	}
}

// unknownSize is the expected number of bytes of a content or chart that is not complete.
const unknownSize = -1

// stray reports missing chunks, and chunks without a record.
func (c *addonsCheck) stray() {
	have := map[string]int{}
	for k, chunk := range c.tx.Range(At(Chunks)) {
		prefix := string(k[:max(len(k)-8, 0)])
		if _, ok := c.chunks[prefix]; !ok {
			c.bad("%s belongs to no content and no chart", k)
		}
		have[prefix] += len(chunk) - 1
	}
	for prefix, size := range c.chunks {
		if size != unknownSize && have[prefix] != size {
			c.bad("%s has %d bytes, its record says %d", Key(prefix), have[prefix], size)
		}
	}
}
