"use strict";
for (const row of document.querySelectorAll(".row")) {
  const plain = row.querySelector(".plain");
  const frame = plain.querySelector(".frame");
  const slider = plain.querySelector(".slider");
  const range = slider.querySelector("input");
  const buttons = row.querySelectorAll(".trials button");
  if (!buttons.length) continue;

  const over = document.createElement("img");
  over.className = "over";
  over.draggable = false;
  frame.append(over);
  frame.querySelector(".picture").draggable = false;

  const cut = () => plain.style.setProperty("--cut", range.value + "%");
  const follow = (event) => {
    const box = frame.getBoundingClientRect();
    range.value = Math.round(100 * (event.clientX - box.left) / box.width);
    cut();
  };
  const choose = (button) => {
    const card = button.closest("figure");
    const picture = card.querySelector(".picture");
    for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
    for (const name of plain.querySelectorAll(".against")) name.textContent = card.dataset.label;
    over.src = picture.src;
    over.alt = picture.alt;
  };

  range.addEventListener("input", cut);
  frame.addEventListener("pointerdown", (event) => {
    frame.setPointerCapture(event.pointerId);
    follow(event);
  });
  frame.addEventListener("pointermove", (event) => {
    if (event.buttons) follow(event);
  });
  for (const button of buttons) {
    button.hidden = false;
    button.addEventListener("click", () => choose(button));
  }
  for (const part of plain.querySelectorAll("[hidden]")) part.hidden = false;
  plain.classList.add("slides");
  choose(buttons[0]);
  cut();
}
