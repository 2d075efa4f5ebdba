// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// Setting is where data are to be sent, for a Forecast.
type Setting struct {
	Objective Objective
	Prices    Prices
	// Cores and PeerCores are how many sender and receiver may use; 0 counts as one.
	Cores, PeerCores int
	// Link is what the network carries in bytes a second; what is not positive and finite
	// counts as no bound.
	Link float64
}

// Effect is what one way to send does with data, for each byte of them.
type Effect struct {
	// Wire is in bytes, Compress and Inflate are CPU seconds.
	Wire, Compress, Inflate float64
}

// Forecast is what sending a byte of plain data takes when many follow each other.
type Forecast struct {
	// Elapsed is in seconds, CPU in CPU seconds of both sides, moving included.
	Elapsed, CPU float64
	// Money at the prices, 0 without any.
	Money float64
	// Value is what the objective makes of it: less is better. It compares forecasts of one
	// Setting.
	Value float64
}

// Forecast predicts what a way to send takes, by the model with which a Controller
// begins: it knows of the engines, cores and network what it is told, and of everything
// else what is usual. An objective Cost without a usable price counts as Elapsed.
func (s Setting) Forecast(e Effect) Forecast {
	m := newModel(s.Objective, s.Prices, s.Cores, s.PeerCores)
	m.link = 0
	if positive(s.Link) {
		m.link = s.Link
	}
	w := m.takes(e.Wire, e.Compress, e.Inflate)
	return Forecast{
		Elapsed: m.seconds(w), CPU: w.send + w.receive,
		Money: m.second*(w.send+w.receive) + m.byte*w.wire, Value: m.value(w),
	}
}
