package webui

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"addon-operator/workflow/inspect"
)

// Sizes of the charts, in units of the viewBox of their SVG elements.
const (
	chartWidth  = 960
	labelWidth  = 150
	rowHeight   = 18
	axisHeight  = 24
	leastBar    = 3 // minimum width of a bar, so that a short attempt can be seen and clicked
	chartTop    = 6
	bandGap     = 8
	labelLetter = 7 // approximate width of a letter of a label
)

// attempts is a chart of attempts by time, with one band for each queue.
type attempts struct {
	Width, Height, Left, Axis int
	Bands                     []attemptBand
	Bars                      []bar
	Ticks                     []tick
	// About describes the chart in words, for people who cannot see it.
	About string
}

// An attemptBand is the band of a queue in the chart of attempts.
type attemptBand struct {
	Name, Label    string
	Y, Height, Mid int
}

// A bar is the bar of one attempt in a chart.
type bar struct {
	X, Y, Width, Height int
	Tone, Title, URL    string
}

// A tick is a time with a label on the time axis of a chart.
type tick struct {
	X     int
	Label string
}

// newAttempts returns the chart of the attempts among entries; nil if there are no attempts.
func newAttempts(entries []inspect.Entry, now time.Time) *attempts {
	entries = attemptsOf(entries)
	if len(entries) == 0 {
		return nil
	}
	began, ended := entries[0].Began, entries[0].At
	for i := range entries {
		if ended.Before(entries[i].At) {
			ended = entries[i].At
		}
	}
	c := &attempts{Width: chartWidth, Left: labelWidth}
	scale := newScale(began, ended)
	y := chartTop
	for _, queue := range queuesOf(entries) {
		band := attemptBand{Name: queue, Label: shortened(queue, (labelWidth-10)/labelLetter), Y: y}
		rows := c.band(entries, queue, y, scale)
		band.Height = rows * rowHeight
		band.Mid = y + band.Height/2 + 4
		c.Bands = append(c.Bands, band)
		y += band.Height + bandGap
	}
	c.Axis = y
	c.Height = y + axisHeight
	c.Ticks = scale.ticks(now)
	c.About = counted(len(entries), "attempt") + " in " + counted(len(c.Bands), "queue") + " within " + inspect.Span(ended.Sub(began))
	return c
}

// attemptsOf returns the entries that are attempts with a known start, sorted by their starts.
func attemptsOf(entries []inspect.Entry) (out []inspect.Entry) {
	for i := range entries {
		if e := &entries[i]; e.Node != "" && !e.Began.IsZero() && !e.At.Before(e.Began) {
			out = append(out, *e)
		}
	}
	slices.SortStableFunc(out, func(a, b inspect.Entry) int { return a.Began.Compare(b.Began) })
	return out
}

// queuesOf returns the queues of attempts, main first and the others sorted by name.
func queuesOf(entries []inspect.Entry) (queues []string) {
	for i := range entries {
		if !slices.Contains(queues, entries[i].Queue) {
			queues = append(queues, entries[i].Queue)
		}
	}
	slices.SortFunc(queues, func(a, b string) int {
		return cmp.Or(cmp.Compare(rankOfQueue(a), rankOfQueue(b)), cmp.Compare(a, b))
	})
	return queues
}

func rankOfQueue(queue string) int {
	if queue == "main" {
		return 0
	}
	return 1
}

// band adds the bars of the attempts in a queue, from y downwards. Bars that would overlap are in separate rows. band
// returns the number of rows.
func (c *attempts) band(entries []inspect.Entry, queue string, y int, scale timeScale) int {
	var free []int // the x coordinate from which a row is free, by row
	for i := range entries {
		e := &entries[i]
		if e.Queue != queue {
			continue
		}
		x := scale.x(e.Began)
		width := max(scale.x(e.At)-x, leastBar)
		row := slices.IndexFunc(free, func(at int) bool { return at <= x })
		if row < 0 {
			row = len(free)
			free = append(free, 0)
		}
		free[row] = x + width
		c.Bars = append(c.Bars, newBar(e, x, y+row*rowHeight, width, rowHeight-4))
	}
	return len(free)
}

func newBar(e *inspect.Entry, x, y, width, height int) bar {
	b := bar{X: x, Y: y, Width: width, Height: height, URL: at(nil, "task", e.Task.String())}
	_, word, tone := inspect.State(e.What).Badge()
	b.Tone = tones[tone]
	b.Title = e.Node
	if e.Subject != "" {
		b.Title += " " + e.Subject
	}
	b.Title += ": " + word + " after " + inspect.Span(e.At.Sub(e.Began))
	if e.Try > 1 {
		b.Title += ", attempt " + strconv.Itoa(e.Try)
	}
	return b
}

// shortened returns text, cut to the number of characters in the argument most. If shortened cuts the text, the last
// character of the result is an ellipsis.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// A timeScale maps times to x coordinates of a chart.
type timeScale struct {
	began time.Time
	span  time.Duration
}

func newScale(began, ended time.Time) timeScale {
	return timeScale{began, max(ended.Sub(began), time.Millisecond)}
}

func (s timeScale) x(t time.Time) int {
	const room = chartWidth - labelWidth - 10
	return labelWidth + int(float64(room)*float64(t.Sub(s.began))/float64(s.span))
}

// tickSteps has the possible times between two ticks of an axis.
var tickSteps = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
	5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// ticks returns at most eight ticks for the time axis, at round times.
func (s timeScale) ticks(now time.Time) (ticks []tick) {
	const most = 7
	step := tickSteps[len(tickSteps)-1]
	for _, d := range tickSteps {
		if s.span/d <= most {
			step = d
			break
		}
	}
	layout := "15:04:05"
	switch {
	case step < time.Second:
		layout = "15:04:05.000"
	case step < time.Minute: // with a date, the label would have no room for the seconds
	case step >= 24*time.Hour || s.began.Before(now.Add(-20*time.Hour)):
		layout = "Jan 02 15:04"
	default:
		layout = "15:04"
	}
	for t := s.began.Truncate(step); !t.After(s.began.Add(s.span)); t = t.Add(step) {
		if !t.Before(s.began) {
			ticks = append(ticks, tick{s.x(t), t.UTC().Format(layout) + "Z"})
		}
		if len(ticks) > most {
			break
		}
	}
	return ticks
}

// durations is a chart of the durations of a hook's attempts. Each attempt has one bar, oldest first.
type durations struct {
	Width, Height, Left, Axis int
	Bars                      []bar
	Lines                     []line
	First, Last               string
	About                     string
}

// A line is a horizontal line of the chart, with the duration that it marks.
type line struct {
	Y     int
	Label string
}

const (
	durationsHeight = 140
	durationsLeft   = 60
	mostBarWidth    = 24
)

// newDurations returns the chart of the durations of the attempts among entries; nil if there are
// no attempts.
func newDurations(entries []inspect.Entry) *durations {
	entries = attemptsOf(entries)
	if len(entries) == 0 {
		return nil
	}
	longest, total := time.Duration(1), time.Duration(0)
	failed := 0
	for i := range entries {
		took := entries[i].At.Sub(entries[i].Began)
		longest, total = max(longest, took), total+took
		if inspect.State(entries[i].What) == inspect.Failed {
			failed++
		}
	}
	d := &durations{
		Width: chartWidth, Height: durationsHeight + axisHeight + chartTop, Left: durationsLeft, Axis: durationsHeight + chartTop,
		First: entries[0].Began.UTC().Format(time.DateTime) + "Z", Last: entries[len(entries)-1].Began.UTC().Format(time.DateTime) + "Z",
	}
	d.Lines = []line{{chartTop + 4, inspect.Span(longest)}, {chartTop + durationsHeight/2 + 4, inspect.Span(longest / 2)}, {d.Axis, "0"}}
	width := min((chartWidth-durationsLeft)/len(entries), mostBarWidth)
	for i := range entries {
		e := &entries[i]
		height := max(int(float64(durationsHeight)*float64(e.At.Sub(e.Began))/float64(longest)), leastBar)
		d.Bars = append(d.Bars, newBar(e, durationsLeft+i*width, d.Axis-height, max(width-3, 2), height))
	}
	d.About = counted(len(entries), "attempt") + ", " + strconv.Itoa(failed) + " failed; on average " +
		inspect.Span(total/time.Duration(len(entries))) + ", at most " + inspect.Span(longest)
	return d
}
