// Scrolling through any number of rows. A browser cannot have an element of more than some million pixels, so a long
// list is cut into pages that overlap: within a page a pixel is a pixel, and the scroll bar spans all of them.

const MOST = 6_000_000; // pixels that every browser can scroll
const PAGE = MOST / 100;

export class Scroller {
  /** `box` scrolls; `room` in it is made as high as can be; `moved` is called with the first pixel that is seen. */
  constructor(box, room, moved) {
    [this.box, this.room, this.moved] = [box, room, moved];
    [this.total, this.height, this.offset, this.before] = [0, 0, 0, 0];
    box.addEventListener("scroll", () => this.onScroll(), { passive: true });
  }

  get view() {
    return this.box.clientHeight;
  }

  /** The first pixel that is seen. */
  get top() {
    return Math.max(0, Math.min(this.before + this.offset, this.total - this.view));
  }

  /** How many pixels there are. */
  resize(total) {
    this.total = Math.max(total, 1);
    this.height = Math.min(this.total, MOST);
    const pages = Math.ceil(this.total / PAGE);
    this.step = pages > 1 ? (this.total - this.height) / (pages - 1) : 0;
    this.pages = pages;
    this.room.style.height = `${this.height}px`;
  }

  offsetOf(page) {
    return Math.round(page * this.step);
  }

  to(top) {
    const wanted = Math.max(0, Math.min(top, this.total - this.view));
    const page = Math.max(0, Math.min(this.pages - 1, Math.floor(wanted / PAGE)));
    this.offset = this.offsetOf(page);
    this.before = Math.round(wanted - this.offset);
    if (this.box.scrollTop !== this.before) this.box.scrollTop = this.before;
    this.before = this.box.scrollTop;
    this.moved(this.top);
  }

  onScroll() {
    const now = this.box.scrollTop;
    const distance = Math.abs(now - this.before);
    if (!distance) return;
    this.before = now;
    if (distance < this.view || this.height === this.total) {
      const page = Math.max(0, Math.min(this.pages - 1, Math.floor((now + this.offset) / PAGE)));
      const offset = this.offsetOf(page);
      if (offset !== this.offset) {
        const top = now + this.offset;
        this.offset = offset;
        this.box.scrollTop = this.before = Math.round(top - offset);
        this.before = this.box.scrollTop;
      }
    } else {
      // The bar was dragged: a share of the bar is the same share of the list.
      const share = now / Math.max(1, this.height - this.view);
      const page = Math.max(0, Math.min(this.pages - 1, Math.floor((share * (this.total - this.view)) / PAGE)));
      this.offset = this.offsetOf(page);
    }
    this.moved(this.top);
  }
}
