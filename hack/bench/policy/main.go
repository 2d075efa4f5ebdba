// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command policy measures what mode Auto loses against the best fixed choice: two agents, one of which sends a kind of
// data to the other over a network of a speed, by Auto with each objective and by each codec and level for all blocks.
//
// Sender and receiver are processes of their own in network namespaces of their own (ltgb-a, ltgb-b), joined by a pair
// of virtual interfaces that a token bucket holds to the speed. They run on one core each, or on two that they share.
// The contenders of a cell run in turn, in several rounds; medians count.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	role := flag.String("role", "", "send or receive: for the processes that this program starts")
	dir := flag.String("dir", "", "the role's directory")
	work := flag.String("work", "", "a directory in memory (required)")
	extent := flag.String("extent", "full", "full, or quick: fewer cells, no result is written")
	only := flag.String(
		"only", "",
		"measure the cells of one kind of data alone, or of one network (10, 100, 1000, 0 for unlimited Mbit/s), or of "+
			"both (10/logs); no result is written but with -merge",
	)
	merge := flag.Bool("merge", false, "put what -only measures in the place of what the results had of it")
	out := flag.String("out", "docs/results", "the directory for policy.md, policy.svg and policy.json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch *role {
	case "":
		err = run(ctx, *work, *extent, *only, *merge, *out)
	case "send":
		err = serveCommands(ctx, newSender, *dir)
	case "receive":
		err = serveCommands(ctx, newReceiver, *dir)
	default:
		err = fmt.Errorf("role %q: send or receive", *role)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, work, extent, only string, keep bool, out string) (err error) {
	if work == "" || extent != "full" && extent != "quick" {
		return errors.New("give -work, and -extent full or quick")
	}
	if runtime.NumCPU() < 2 {
		return errors.New("two cores are needed: one for each side")
	}
	network, err := newNetwork(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }() //nolint:contextcheck // also when the context has ended
	grid := fullGrid
	if extent == "quick" {
		grid = quickGrid
	}
	if grid, err = grid.only(only); err != nil {
		return err
	}
	var rows []row
	for _, cores := range grid.cores {
		pair, err := startPair(ctx, network, filepath.Join(work, fmt.Sprint(cores)), cores)
		if err != nil {
			return err
		}
		for _, link := range grid.links {
			if !measured(link, cores) {
				continue
			}
			if err := network.Limit(ctx, int(link)); err != nil {
				return errors.Join(err, pair.close())
			}
			for _, kind := range grid.kinds {
				c, err := pair.measure(ctx, cell{link: link, kind: kind, cores: cores}, grid)
				if err != nil {
					return errors.Join(err, pair.close())
				}
				fmt.Println(c)
				rows = append(rows, c.rows(time.Now())...)
			}
		}
		if err := pair.close(); err != nil {
			return err
		}
	}
	if extent == "full" && (only == "" || keep) {
		if rows, err = publish(out, rows, keep); err != nil {
			return err
		}
	}
	median, most := noise(rows)
	fmt.Printf("noise of none beside itself: median %.1f %%, at most %.1f %%\n", median, most)
	for _, t := range targets(rows) {
		fmt.Println(t)
	}
	return nil
}

// publish writes what was measured, beside what was measured before if only a part was.
func publish(out string, rows []row, part bool) ([]row, error) {
	if part {
		before, err := readRows(out)
		if err != nil {
			return nil, err
		}
		rows = merge(before, rows)
	}
	if err := keepRows(out, rows); err != nil {
		return nil, err
	}
	if missing := fullGrid.rows() - len(rows); missing > 0 {
		fmt.Printf("%d rows are not measured yet: the report is written when all are\n", missing)
		return rows, nil
	}
	return rows, report(out, rows, targets(rows))
}
