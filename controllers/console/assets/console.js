// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Looks at a page again while it is shown, and changes what has changed: focus, selection and scrolling stay.
(() => {
  "use strict";
  const find = (id) => document.getElementById(id);
  const main = find("main");
  const trouble = find("trouble");
  const button = find("pause");
  const seconds = Number(main && main.dataset.refresh);
  let paused = false;
  let busy = false;

  // Tables that are wider than the page can be scrolled with the keyboard.
  const reach = () => {
    for (const box of document.querySelectorAll(".scroll")) {
      const wide = box.scrollWidth > box.clientWidth;
      const name = box.querySelector("caption").textContent;
      for (const [key, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", name]]) {
        if (wide) {
          box.setAttribute(key, value);
        } else {
          box.removeAttribute(key);
        }
      }
    }
  };

  // follow makes a node as another one of the same name is.
  const follow = (old, now) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== now.nodeValue) {
        old.nodeValue = now.nodeValue;
      }
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name)) {
        old.removeAttribute(name);
      }
    }
    for (const { name, value } of now.attributes) {
      if (old.getAttribute(name) !== value) {
        old.setAttribute(name, value);
      }
    }
    if (old.nodeName === "INPUT") {
      return;
    }
    const news = [...now.childNodes];
    for (let i = 0; i < news.length; i++) {
      const child = old.childNodes[i];
      if (!child) {
        old.append(news[i]);
      } else if (child.nodeName !== news[i].nodeName) {
        child.replaceWith(news[i]);
      } else {
        follow(child, news[i]);
      }
    }
    while (old.childNodes.length > news.length) {
      old.lastChild.remove();
    }
  };

  const say = (text) => {
    trouble.textContent = text;
    trouble.hidden = text === "";
  };

  const look = async () => {
    if (paused || busy || document.hidden) {
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
      if (answer.status === 401) {
        say("The session has ended. Open a new link of the console.");
        paused = true;
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const now = page.getElementById("main");
      if (!answer.ok || !now) {
        say("Not up to date: " + (page.querySelector("h1") ? page.querySelector("h1").textContent : answer.status));
        return;
      }
      const said = now.dataset.said;
      if (said !== main.dataset.said) {
        find("said").textContent = said;
      }
      follow(main, now);
      find("time").textContent = page.getElementById("time").textContent;
      say("");
      reach();
    } catch {
      say("Not up to date: the console does not answer. It may have ended.");
    } finally {
      busy = false;
    }
  };

  reach();
  addEventListener("resize", reach);
  if (seconds > 0) {
    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      look();
    });
    setInterval(look, seconds * 1000);
    document.addEventListener("visibilitychange", look);
  }
})();
